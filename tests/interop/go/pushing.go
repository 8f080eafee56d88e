package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func (c *clients) produce(topic, mark string, count int) error {
	sender, err := c.producer()
	if err != nil {
		return err
	}
	for number := 0; number < count; number++ {
		sent := message(topic, "", fmt.Sprintf("%s-%d", mark, number), "x")
		if _, err := sender.SendSync(context.Background(), sent); err != nil {
			return err
		}
	}
	return nil
}

func (c *clients) member(group, topic string, heard listener, options ...consumer.Option) (func(), error) {
	made, err := c.pushConsumer(group, options...)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, everything, heard); err != nil {
		return nil, err
	}
	return func() { _ = made.Shutdown() }, made.Start()
}

func (c *clients) ordered(lines *answer) error {
	topic := c.name("ordered")
	var all received
	var lock sync.Mutex
	orders := map[string][]string{}
	probed := map[string]int{} // probe → the member that got it
	sender, err := c.producer()
	if err != nil {
		return err
	}
	// This client does not tell which queues it has: a round of probes shows it. The second comes
	// when the first has them all, since one that balances twice at a time may leave locks behind.
	round := 0
	isSettled := false
	for number := 0; number < 2; number++ {
		who := number
		_, err := c.member(c.name("ordered-group"), topic,
			func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				lock.Lock()
				defer lock.Unlock()
				for _, found := range messages {
					if found.GetTags() == "Probe" {
						probed[found.GetKeys()] = who
					} else {
						orders[found.GetTags()] = append(orders[found.GetTags()], string(found.Body))
						all.add(found.GetKeys())
					}
				}
				return consumer.ConsumeSuccess, nil
			}, consumer.WithConsumerOrder(true), consumer.WithRebalanceLockInterval(time.Second))
		if err != nil {
			return err
		}
		isSettled = eventuallyWithin(2*patience, func() bool {
			round++
			for queue := 0; queue < 4; queue++ {
				probe := message(topic, "Probe", fmt.Sprintf("probe-%d-%d", round, queue), "p")
				_, _ = sender.SendSync(context.Background(), toQueue(probe, queue))
			}
			return eventuallyWithin(settle, func() bool {
				lock.Lock()
				defer lock.Unlock()
				queuesOf := map[int]int{}
				for queue := 0; queue < 4; queue++ {
					member, isHere := probed[fmt.Sprintf("probe-%d-%d", round, queue)]
					if !isHere {
						return false
					}
					queuesOf[member]++
				}
				return queuesOf[who] == 4/(who+1) // and the other one has as many
			})
		})
	}
	lines.add("both take part %v", isSettled)
	for number := 0; number < 60; number++ {
		sent := message(topic, fmt.Sprint("Order", number%6), fmt.Sprint("o-", number), fmt.Sprint(number))
		if _, err := sender.SendSync(context.Background(), toQueue(sent, number%6%4)); err != nil {
			return err
		}
	}
	eventually(func() bool { return all.count() >= 60 })
	lines.add("received %d of %d", len(all.distinct()), all.count())
	lock.Lock()
	defer lock.Unlock()
	names := []string{}
	for name := range orders {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		lines.add("%s %v", name, orders[name])
	}
	return nil
}

// A member in a process of its own, to be killed.
func runMember(c *clients, group, topic string, isOrderly bool) {
	options := []consumer.Option{}
	if isOrderly {
		options = append(options, consumer.WithConsumerOrder(true), consumer.WithRebalanceLockInterval(time.Second))
	}
	_, err := c.member(group, topic,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, found := range messages {
				fmt.Println(found.GetKeys())
			}
			return consumer.ConsumeSuccess, nil
		}, options...)
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	select {}
}

func (c *clients) rebalance(lines *answer) error {
	topic, group := c.name("rebalance"), c.name("rebalance-group")
	var first, second received
	if _, err := c.member(group, topic, into(&first)); err != nil {
		return err
	}
	if err := c.produce(topic, "one", 40); err != nil {
		return err
	}
	eventually(func() bool { return len(first.distinct()) >= 40 })
	lines.add("one member has %d", len(first.distinct()))

	leave, err := c.member(group, topic, into(&second))
	if err != nil {
		return err
	}
	lines.add("two members take part %v", c.isShared(topic, "two", func() bool { return second.count() > 0 }))

	leave()
	before := first.count()
	if err := c.produce(topic, "left", 40); err != nil {
		return err
	}
	eventually(func() bool { return first.count() >= before+40 })
	lines.add("one left, the other has all %v", first.count() >= before+40)

	command := exec.Command(os.Args[0], c.nameServer, c.prefix+"-mortal", group, topic)
	output := &received{}
	command.Stdout = writer{output}
	if err := command.Start(); err != nil {
		return err
	}
	lines.add("a process takes part %v", c.isShared(topic, "three", func() bool { return output.count() > 0 }))
	if err := command.Process.Kill(); err != nil {
		return err
	}
	_ = command.Wait()
	before = first.count()
	if err := c.produce(topic, "killed", 40); err != nil {
		return err
	}
	eventually(func() bool { return first.count() >= before+40 })
	lines.add("it was killed, the other has all %v", first.count() >= before+40)
	return nil
}

// Whether a new member gets something of what is sent now.
func (c *clients) isShared(topic, mark string, hasSome func() bool) bool {
	round := 0
	return eventually(func() bool {
		round++
		_ = c.produce(topic, fmt.Sprint(mark, round), 8)
		return hasSome()
	})
}

type writer struct{ into *received }

func (w writer) Write(text []byte) (int, error) {
	w.into.add(string(text))
	return len(text), nil
}

func (c *clients) broadcast(lines *answer) error {
	topic := c.name("broadcast")
	members := []*received{{}, {}}
	for _, member := range members {
		_, err := c.member(c.name("broadcast-group"), topic, into(member),
			consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return err
		}
	}
	if err := c.produce(topic, "b", 10); err != nil {
		return err
	}
	for _, member := range members {
		eventually(func() bool { return member.count() >= 10 })
		lines.add("received %v of %d", member.distinct(), member.count())
	}
	return nil
}

func (c *clients) filter(lines *answer) error {
	topic := c.name("filter")
	sender, err := c.producer()
	if err != nil {
		return err
	}
	for number := 0; number < 20; number++ {
		tag := []string{"TagA", "TagB", "TagC", ""}[number%4]
		sent := message(topic, tag, fmt.Sprintf("f-%02d", number), "f")
		sent.WithProperty("n", fmt.Sprint(number))
		sent.WithProperty("even", fmt.Sprint(number%2 == 0))
		if _, err := sender.SendSync(context.Background(), sent); err != nil {
			return err
		}
	}
	for _, wanted := range []struct {
		name       string
		kind       consumer.ExpressionType
		expression string
		count      int
	}{
		{"one-tag", consumer.TAG, "TagA", 5},
		{"two-tags", consumer.TAG, "TagA || TagC", 10},
		{"sql", consumer.SQL92, "n BETWEEN 3 AND 7 OR TAGS = 'TagB'", 9},
		{"sql-text", consumer.SQL92, "even = TRUE AND n NOT IN ('2', '4')", 8},
	} {
		var keys received
		reader, err := c.pushConsumer(c.name(wanted.name))
		if err != nil {
			return err
		}
		rule := consumer.MessageSelector{Type: wanted.kind, Expression: wanted.expression}
		if err := reader.Subscribe(topic, rule, into(&keys)); err != nil {
			return err
		}
		if err := reader.Start(); err != nil {
			return err
		}
		eventually(func() bool { return keys.count() >= wanted.count })
		time.Sleep(settle) // would anything come that should not?
		lines.add("%s %v of %d", wanted.name, keys.distinct(), keys.count())
	}
	return nil
}

func (c *clients) namespace(lines *answer) error {
	topic := c.name("namespace")
	sender, err := c.newProducer(c.name("space-producer"), producer.WithNamespace("SPACE"))
	if err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = sender.Shutdown() })
	for number := 0; number < 2; number++ {
		lines.add("send %s", outcome(sender.SendSync(context.Background(),
			message(topic, "T", fmt.Sprint("n-", number), "in the namespace"))))
	}
	var inside, outside received
	_, err = c.member(c.name("space-group"), topic,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, found := range messages {
				inside.add(found.GetKeys() + " " + found.Topic + " " + string(found.Body))
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithNamespace("SPACE"))
	if err != nil {
		return err
	}
	if _, err = c.member(c.name("space-stranger"), "SPACE%"+topic, into(&outside)); err != nil {
		return err
	}
	eventually(func() bool { return inside.count() >= 2 && outside.count() >= 2 })
	lines.add("received %v", inside.distinct())
	lines.add("by its full name %v", outside.distinct())
	return nil
}

func (c *clients) reset(lines *answer) error {
	topic, group := c.name("reset"), c.name("reset-group")
	if err := c.produce(topic, "r", 10); err != nil {
		return err
	}
	var keys received
	if _, err := c.member(group, topic, into(&keys)); err != nil {
		return err
	}
	eventually(func() bool { return keys.count() >= 10 })
	lines.add("received %d", len(keys.distinct()))
	fmt.Printf("reset %s %s\n", topic, group) // whoever started this program does it
	c.input.Scan()
	if err := c.produce(topic, "s", 4); err != nil {
		return err
	}
	eventually(func() bool { return keys.count() >= 24 })
	lines.add("received again %v", keys.count() >= 24)
	return nil
}
