package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const fewEach = 4

// Decides by the key of a message; "later" is not known when the broker asks first.
type decider struct {
	lock   sync.Mutex
	checks map[string]int
}

func (d *decider) ExecuteLocalTransaction(sent *primitive.Message) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(sent.GetKeys(), "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(sent.GetKeys(), "rollback"):
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decider) CheckLocalTransaction(half *primitive.MessageExt) primitive.LocalTransactionState {
	// 5.5.0 writes ends down after up to 3 s, and asks about them until then.
	if strings.HasPrefix(half.GetKeys(), "commit") {
		return primitive.CommitMessageState
	}
	if strings.HasPrefix(half.GetKeys(), "rollback") {
		return primitive.RollbackMessageState
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.checks[half.GetKeys()]++
	if strings.HasPrefix(half.GetKeys(), "later") && d.checks[half.GetKeys()] < 2 {
		return primitive.UnknowState
	}
	if strings.HasPrefix(half.GetKeys(), "never") {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func (d *decider) asked() []string {
	d.lock.Lock()
	defer d.lock.Unlock()
	keys := []string{}
	for key := range d.checks {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func (c *clients) transaction(lines *answer) error {
	topic := c.name("transaction")
	decides := &decider{checks: map[string]int{}}
	sender, err := rocketmq.NewTransactionProducer(decides,
		producer.WithNameServer([]string{c.nameServer}),
		producer.WithGroupName(c.name("transaction-producer")),
		producer.WithInstanceName(c.instance()))
	if err != nil {
		return err
	}
	if err = sender.Start(); err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = sender.Shutdown() })
	var seen received
	if err = c.consume(topic, c.name("transaction-group"), &seen); err != nil {
		return err
	}
	for _, kind := range []string{"commit", "rollback", "later", "never"} {
		for number := 0; number < fewEach; number++ {
			half := message(topic, "Tag", fmt.Sprint(kind, "-", number), kind)
			result, err := sender.SendMessageInTransaction(context.Background(), half)
			if err != nil {
				return err
			}
			lines.add("%s %s %v", kind, status(result.SendResult), result.State)
		}
	}
	lines.add("all seen %v", eventually(func() bool { return len(seen.distinct()) >= 2*fewEach }))
	lines.add("all asked %v", eventually(func() bool { return len(decides.asked()) >= 2*fewEach }))
	lines.add("seen %v", seen.distinct())
	lines.add("asked about %v", decides.asked())
	return nil
}

func (c *clients) consume(topic, group string, seen *received, options ...consumer.Option) error {
	member, err := c.pushConsumer(group, options...)
	if err != nil {
		return err
	}
	if err = member.Subscribe(topic, everything, into(seen)); err != nil {
		return err
	}
	return member.Start()
}

func (c *clients) reply(lines *answer) error {
	topic := c.name("reply")
	replier, err := c.producer()
	if err != nil {
		return err
	}
	member, err := c.pushConsumer(c.name("reply-group"))
	if err != nil {
		return err
	}
	err = member.Subscribe(topic, everything,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, asked := range messages {
				text := []byte(string(asked.Body) + " to you")
				made, err := consumer.CreateReplyMessage(asked, text)
				if err != nil {
					continue
				}
				made.Body = text // which the client forgets
				_, _ = replier.SendSync(context.Background(), made)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = member.Start(); err != nil {
		return err
	}
	asker, err := c.newProducer(c.name("reply-producer"))
	if err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = asker.Shutdown() })
	ask := func(text string) string {
		answered, err := asker.Request(context.Background(), 5*time.Second, primitive.NewMessage(topic, []byte(text)))
		if err != nil {
			return failure(err)
		}
		return string(answered.Body)
	}
	lines.add("answered %v", eventually(func() bool { return ask("first") == "first to you" }))
	for number := 0; number < fewEach; number++ {
		lines.add("%s", ask(fmt.Sprint("hello ", number)))
	}
	return nil
}

// What was recorded is compared by the test itself: this client cannot query.
func (c *clients) trace(lines *answer) error {
	topic := c.name("trace")
	settings := func(group string) *primitive.TraceConfig {
		return &primitive.TraceConfig{
			GroupName: group, Access: primitive.Local,
			Resolver: primitive.NewPassthroughResolver([]string{c.nameServer}),
		}
	}
	sender, err := c.newProducer(c.name("trace-producer"), producer.WithTrace(settings("trace-p")))
	if err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = sender.Shutdown() })
	var seen, recorded received
	err = c.consume(topic, c.name("trace-group"), &seen, consumer.WithTrace(settings("trace-c")))
	if err != nil {
		return err
	}
	if err = c.readTraces(&recorded); err != nil {
		return err
	}
	result, err := sender.SendSync(context.Background(), message(topic, "Tag", c.name("trace-key"), "traced"))
	if err != nil {
		return err
	}
	lines.add("sent %s", status(result))
	lines.add("consumed %v", eventually(func() bool { return seen.count() > 0 }))
	// A client that closes drops what it has not sent of its traces by then.
	lines.add("recorded %v", eventually(func() bool {
		return contains(recorded.inOrder(), "Pub", result.MsgID) &&
			contains(recorded.inOrder(), "SubBefore", result.MsgID) &&
			contains(recorded.inOrder(), "SubAfter", result.MsgID)
	}))
	return nil
}

// Every event that clients record is a line of the topic's messages.
func (c *clients) readTraces(events *received) error {
	member, err := c.pushConsumer(c.name("trace-reader"))
	if err != nil {
		return err
	}
	err = member.Subscribe("RMQ_SYS_TRACE_TOPIC", everything,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, traced := range messages {
				for _, event := range strings.Split(string(traced.Body), "\x02") {
					events.add(event)
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	return member.Start()
}

func contains(events []string, kind, messageID string) bool {
	for _, event := range events {
		if strings.HasPrefix(event, kind+"\x01") && strings.Contains(event, messageID) {
			return true
		}
	}
	return false
}
