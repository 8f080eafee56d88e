package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const timesMax = 2

func (c *clients) pull(lines *answer) error {
	topic := c.name("pull")
	reader, err := c.pullConsumer(c.name("pull-group"), topic)
	if err != nil {
		return err
	}
	sender, err := c.producer()
	if err != nil {
		return err
	}
	var queue primitive.MessageQueue
	for number := 0; number < 10; number++ {
		result, err := sender.SendSync(context.Background(),
			toQueue(message(topic, "", fmt.Sprint("p-", number), fmt.Sprint("p", number)), 0))
		if err != nil {
			return err
		}
		queue = *result.MessageQueue
	}
	from := func(offset int64, count int) string {
		asked := queue
		result, err := reader.PullFrom(context.Background(), &asked, offset, count)
		if err != nil {
			return failure(err)
		}
		return fmt.Sprintf("status %d next %d min %d max %d found %d", result.Status,
			result.NextBeginOffset, result.MinOffset, result.MaxOffset, len(result.GetMessageExts()))
	}
	eventually(func() bool { return strings.HasSuffix(from(0, 32), "found 10") })
	lines.add("all %s", from(0, 32))
	lines.add("three %s", from(4, 3))
	lines.add("past the end %s", from(99, 32))
	time.AfterFunc(time.Second, func() {
		_, _ = sender.SendSync(context.Background(), toQueue(message(topic, "", "p-late", "late"), 0))
	})
	lines.add("waited for %s", from(10, 32))
	return nil
}

func (c *clients) lite(lines *answer) error {
	topic := c.name("lite")
	if err := c.produce(topic, "l", 20); err != nil {
		return err
	}
	reader, err := c.pullConsumer(c.name("lite-group"), topic)
	if err != nil {
		return err
	}
	var keys received
	eventually(func() bool {
		request, err := reader.Poll(context.Background(), time.Second)
		if err == nil {
			for _, found := range request.GetMsgList() {
				keys.add(found.GetKeys())
			}
			reader.ACK(context.Background(), request, consumer.ConsumeSuccess)
		}
		return keys.count() >= 20
	})
	lines.add("polled %v of %d", keys.distinct(), keys.count())
	return nil
}

func (c *clients) retry(lines *answer) error {
	return c.failing(lines, "retry", "retry-group", consumer.ConsumeRetryLater)
}

func (c *clients) suspend(lines *answer) error {
	return c.failing(lines, "suspend", "suspend-group", consumer.SuspendCurrentQueueAMoment,
		consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(200*time.Millisecond))
}

// A message that fails until it is a dead letter, and one that does not.
func (c *clients) failing(
	lines *answer, topicName, groupName string, refusal consumer.ConsumeResult, options ...consumer.Option,
) error {
	topic, group := c.name(topicName), c.name(groupName)
	var seen received
	_, err := c.member(group, topic,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			found := messages[0]
			seen.add(fmt.Sprintf("%s times %d topic %s", found.GetKeys(), found.ReconsumeTimes, found.Topic))
			if found.GetKeys() == "poison" {
				return refusal, nil
			}
			return consumer.ConsumeSuccess, nil
		}, append(options, consumer.WithMaxReconsumeTimes(timesMax))...)
	if err != nil {
		return err
	}
	sender, err := c.producer()
	if err != nil {
		return err
	}
	if _, err := sender.SendSync(context.Background(), message(topic, "T", "poison", "bad")); err != nil {
		return err
	}
	eventually(func() bool { return seen.count() >= timesMax+1 })
	letter, err := c.deadLetter(group)
	if err != nil {
		return err
	}
	for _, line := range seen.inOrder() {
		lines.add("%s", line)
	}
	lines.add("dead letter %s times %d of %s", letter.GetKeys(), letter.ReconsumeTimes, letter.GetProperty("RETRY_TOPIC"))
	before := seen.count()
	if _, err := sender.SendSync(context.Background(), message(topic, "T", "healthy", "good")); err != nil {
		return err
	}
	eventually(func() bool { return seen.count() > before })
	lines.add("after it %s", seen.inOrder()[before])
	return nil
}

func (c *clients) deadLetter(group string) (*primitive.MessageExt, error) {
	topic := "%DLQ%" + group
	var reader rocketmq.PullConsumer
	var err error
	eventually(func() bool { // there is no route before the first dead letter
		reader, err = c.pullConsumer(fmt.Sprint(group, "-reader-", c.instances), topic)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	var letter *primitive.MessageExt
	eventually(func() bool {
		request, err := reader.Poll(context.Background(), time.Second)
		if err == nil && len(request.GetMsgList()) > 0 {
			letter = request.GetMsgList()[0]
		}
		return letter != nil
	})
	if letter == nil {
		return nil, fmt.Errorf("no dead letter")
	}
	return letter, nil
}
