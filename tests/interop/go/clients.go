package main

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	patience = 60 * time.Second
	settle   = 500 * time.Millisecond
	poll     = 50 * time.Millisecond
)

var codeOfError = regexp.MustCompile(`(?i)code:? *(\d+)`)

// Producers and consumers of the scenarios, closed when a scenario ends.
type clients struct {
	nameServer string
	prefix     string
	input      *bufio.Scanner
	instances  int
	closings   []func()
	shared     rocketmq.Producer
	load       *load
}

func newClients(nameServer, prefix string) *clients {
	return &clients{nameServer: nameServer, prefix: prefix, input: newInput()}
}

func (c *clients) name(what string) string { return c.prefix + "-" + what }

func (c *clients) instance() string {
	c.instances++
	return fmt.Sprintf("%s#%d", c.prefix, c.instances)
}

func (c *clients) newProducer(group string, options ...producer.Option) (rocketmq.Producer, error) {
	all := append([]producer.Option{
		producer.WithNameServer([]string{c.nameServer}),
		producer.WithGroupName(group),
		producer.WithInstanceName(c.instance()),
		producer.WithSendMsgTimeout(10 * time.Second),
	}, options...)
	made, err := rocketmq.NewProducer(all...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// The producer that all scenarios share; messages with a "queue" property go to that queue.
func (c *clients) producer() (rocketmq.Producer, error) {
	if c.shared == nil {
		made, err := c.newProducer(c.name("producer"), producer.WithQueueSelector(newSelector()))
		if err != nil {
			return nil, err
		}
		c.shared = made
	}
	return c.shared, nil
}

func (c *clients) pushConsumer(group string, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	all := append([]consumer.Option{
		consumer.WithNameServer([]string{c.nameServer}),
		consumer.WithGroupName(group),
		consumer.WithInstance(c.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	made, err := rocketmq.NewPushConsumer(all...)
	if err == nil {
		c.closings = append(c.closings, func() { _ = made.Shutdown() })
	}
	return made, err
}

func (c *clients) pullConsumer(group, topic string) (rocketmq.PullConsumer, error) {
	made, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer([]string{c.nameServer}),
		consumer.WithGroupName(group),
		consumer.WithInstance(c.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, everything); err != nil {
		return nil, err
	}
	if err = made.Start(); err == nil {
		c.closings = append(c.closings, func() { _ = made.Shutdown() })
	}
	return made, err
}

func (c *clients) closeAll() {
	for _, closing := range c.closings {
		closing()
	}
	c.closings = nil
}

// The members of a group that a test can wait for.
type received struct {
	lock sync.Mutex
	keys []string
}

func (r *received) add(line string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.keys = append(r.keys, line)
}

func (r *received) count() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return len(r.keys)
}

func (r *received) inOrder() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return append([]string{}, r.keys...)
}

// Every line once, sorted.
func (r *received) distinct() []string {
	seen := map[string]bool{}
	for _, key := range r.inOrder() {
		seen[key] = true
	}
	lines := []string{}
	for key := range seen {
		lines = append(lines, key)
	}
	sort.Strings(lines)
	return lines
}

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func into(keys *received) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			keys.add(message.GetKeys())
		}
		return consumer.ConsumeSuccess, nil
	}
}

func message(topic, tag, key, body string) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(body))
	if tag != "" {
		made.WithTag(tag)
	}
	return made.WithKeys([]string{key})
}

func eventually(condition func() bool) bool {
	return eventuallyWithin(patience, condition)
}

func eventuallyWithin(limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(poll)
	}
	return true
}

// What an error says that does not depend on addresses and times.
func failure(err error) string {
	if found := codeOfError.FindStringSubmatch(err.Error()); found != nil {
		return "code " + found[1]
	}
	return strings.SplitN(err.Error(), ",", 2)[0]
}

func outcome(result *primitive.SendResult, err error) string {
	if err != nil {
		return failure(err)
	}
	return status(result)
}

func status(result *primitive.SendResult) string {
	if result.Status == primitive.SendOK {
		return "SEND_OK"
	}
	return fmt.Sprint("status ", result.Status)
}

// Round robin, unless a message says to which queue it wants to go.
type selector struct{ others producer.QueueSelector }

func newSelector() producer.QueueSelector {
	return &selector{producer.NewRoundRobinQueueSelector()}
}

func (s *selector) Select(
	sent *primitive.Message, queues []*primitive.MessageQueue, last string,
) *primitive.MessageQueue {
	wanted := sent.GetProperty("queue")
	for _, queue := range queues {
		if fmt.Sprint(queue.QueueId) == wanted {
			return queue
		}
	}
	return s.others.Select(sent, queues, last)
}

func toQueue(sent *primitive.Message, queue int) *primitive.Message {
	sent.WithProperty("queue", fmt.Sprint(queue))
	return sent
}
