package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	each  = 8
	limit = 4 * 1024 * 1024
)

func (c *clients) send(lines *answer) error {
	sender, err := c.producer()
	if err != nil {
		return err
	}
	topic := c.name("send")
	queues := map[int]int{}
	for number := 0; number < each; number++ {
		result, err := sender.SendSync(context.Background(),
			message(topic, "Sync", fmt.Sprint("sync-", number), fmt.Sprint("s", number)))
		if err != nil {
			return err
		}
		queues[result.MessageQueue.QueueId]++
		lines.add("sync %s %s ids %d %d", status(result), result.RegionID, len(result.MsgID), len(result.OffsetMsgID))
	}
	lines.add("sync queues %v", queues)
	var done sync.WaitGroup
	var answered received
	for number := 0; number < each; number++ {
		done.Add(1)
		err := sender.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				answered.add(outcome(result, err))
				done.Done()
			}, message(topic, "Async", fmt.Sprint("async-", number), fmt.Sprint("a", number)))
		if err != nil {
			return err
		}
	}
	done.Wait()
	lines.add("async %v", answered.inOrder())
	for number := 0; number < each; number++ {
		if err := sender.SendOneWay(context.Background(),
			message(topic, "Oneway", fmt.Sprint("oneway-", number), fmt.Sprint("o", number))); err != nil {
			return err
		}
	}
	batch := []*primitive.Message{}
	for number := 0; number < each; number++ {
		batch = append(batch, message(topic, "Batch", fmt.Sprint("batch-", number), fmt.Sprint("b", number)))
	}
	result, err := sender.SendSync(context.Background(), batch...)
	if err != nil {
		return err
	}
	lines.add("batch %s ids %d", status(result), len(strings.Split(result.OffsetMsgID, ",")))
	result, err = sender.SendSync(context.Background(), toQueue(message(topic, "Queue", "queue-0", "q0"), 2))
	if err != nil {
		return err
	}
	lines.add("to a queue %s %d", status(result), result.MessageQueue.QueueId)
	lines.add("delayed %s", outcome(sender.SendSync(context.Background(),
		message(topic, "Delayed", "delayed-0", "d0").WithDelayTimeLevel(1))))
	return c.readAll(lines, topic, 4*each+2)
}

// Every level of the sites is a second long; what was delivered carries its level.
func (c *clients) later(lines *answer) error {
	sender, err := c.producer()
	if err != nil {
		return err
	}
	topic := c.name("later")
	for _, level := range []int{1, 2, 3, 18, 99} {
		lines.add("level %d %s", level, outcome(sender.SendSync(context.Background(),
			message(topic, "Level", fmt.Sprint("level-", level), "later").WithDelayTimeLevel(level))))
	}
	return c.readAll(lines, topic, 5)
}

func (c *clients) readAll(lines *answer, topic string, count int) error {
	var seen received
	reader, err := c.pushConsumer(c.name("reader-of-") + topic)
	if err != nil {
		return err
	}
	err = reader.Subscribe(topic, everything,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, found := range messages {
				seen.add(shown(found))
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	eventually(func() bool { return seen.count() >= count })
	lines.add("received %d", seen.count())
	for _, line := range seen.distinct() {
		lines.add("%s", line)
	}
	return nil
}

func shown(found *primitive.MessageExt) string {
	names := []string{}
	for name := range found.GetProperties() {
		names = append(names, name)
	}
	sort.Strings(names)
	body := string(found.Body)
	if len(body) > 100 {
		body = fmt.Sprintf("%d bytes %x", len(body), sha256.Sum256(found.Body))
	}
	return fmt.Sprintf("%s %s %s flag %d times %d %v",
		found.GetKeys(), found.GetTags(), body, found.Flag, found.ReconsumeTimes, names)
}

func (c *clients) sizes(lines *answer) error {
	topic := c.name("sizes")
	sender, err := c.newProducer(c.name("large-producer"),
		producer.WithCompressMsgBodyOverHowmuch(100*limit), producer.WithRetry(0))
	if err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = sender.Shutdown() })
	for _, size := range []int{1, limit, limit + 1} {
		body := make([]byte, size)
		rand.New(rand.NewSource(int64(size))).Read(body)
		sent := primitive.NewMessage(topic, body).WithKeys([]string{fmt.Sprint("size-", size)})
		lines.add("%d bytes: %s", size, outcome(sender.SendSync(context.Background(), sent)))
	}
	ordinary, err := c.producer()
	if err != nil {
		return err
	}
	text := primitive.NewMessage(topic, []byte(strings.Repeat("x", 100_000))).WithKeys([]string{"size-text"})
	lines.add("compressed: %s", outcome(ordinary.SendSync(context.Background(), text)))
	wide := message(topic, "", "size-wide", "w")
	wide.WithProperty("wide", strings.Repeat("w", 33_000))
	lines.add("wide properties: %s", outcome(sender.SendSync(context.Background(), wide)))
	return c.readAll(lines, topic, 3)
}

// A message without a body, which 5.5.0 refuses with a null pointer.
func (c *clients) empty(lines *answer) error {
	sender, err := c.producer()
	if err != nil {
		return err
	}
	topic := c.name("empty")
	lines.add("send: %s", outcome(sender.SendSync(context.Background(), message(topic, "", "nothing", ""))))
	return c.readAll(lines, topic, 1)
}

func (c *clients) unknown(lines *answer) error {
	topic := c.name("unknown")
	sender, err := c.newProducer(c.name("stranger"), producer.WithRetry(0))
	if err != nil {
		return err
	}
	c.closings = append(c.closings, func() { _ = sender.Shutdown() })
	lines.add("send: %s", outcome(sender.SendSync(context.Background(), message(topic, "", "u", "u"))))
	lines.add("bad name: %s", outcome(sender.SendSync(context.Background(), message("bad.name", "", "u", "u"))))
	lines.add("system topic: %s",
		outcome(sender.SendSync(context.Background(), message("SCHEDULE_TOPIC_XXXX", "", "u", "u"))))
	return nil
}
