package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const senders = 4

// Senders and an orderly consumer that go on whatever happens to the broker.
type load struct {
	lock         sync.Mutex
	isRunning    bool
	acknowledged map[string]bool
	received     map[string]bool
	newest       map[int]int
	disorder     int
	failures     int
	done         sync.WaitGroup
	producer     rocketmq.Producer
	consumer     rocketmq.PushConsumer
}

func (c *clients) startLoad(lines *answer) error {
	topic := c.name("load")
	made := &load{isRunning: true, acknowledged: map[string]bool{}, received: map[string]bool{}, newest: map[int]int{}}
	var err error
	made.producer, err = c.newProducer(c.name("load-producer"),
		producer.WithQueueSelector(newSelector()), producer.WithRetry(0), producer.WithSendMsgTimeout(2*time.Second))
	if err != nil {
		return err
	}
	made.consumer, err = c.pushConsumer(c.name("load-group"), consumer.WithConsumerOrder(true),
		consumer.WithRebalanceLockInterval(time.Second))
	if err != nil {
		return err
	}
	c.closings = nil // it goes on when this scenario ends
	if err = made.consumer.Subscribe(topic, everything, made.receive); err != nil {
		return err
	}
	if err = made.consumer.Start(); err != nil {
		return err
	}
	c.load = made
	for queue := 0; queue < senders; queue++ {
		made.done.Add(1)
		go made.send(topic, queue)
	}
	lines.add("started")
	return nil
}

// One sender per queue: what it sends next is newer than all that it sent before.
func (l *load) send(topic string, queue int) {
	defer l.done.Done()
	for number := 0; l.goesOn(); number++ {
		key := fmt.Sprintf("%d-%d", queue, number)
		sent := toQueue(message(topic, "", key, strconv.Itoa(number)), queue)
		result, err := l.producer.SendSync(context.Background(), sent)
		l.lock.Lock()
		if err == nil && result.Status == primitive.SendOK {
			l.acknowledged[key] = true
		} else {
			l.failures++
		}
		l.lock.Unlock()
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		} else {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func (l *load) goesOn() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.isRunning
}

func (l *load) receive(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, found := range messages {
		if l.received[found.GetKeys()] {
			continue
		}
		l.received[found.GetKeys()] = true
		number, _ := strconv.Atoi(string(found.Body))
		last, isKnown := l.newest[found.Queue.QueueId]
		if isKnown && last > number {
			l.disorder++
		}
		l.newest[found.Queue.QueueId] = number
	}
	return consumer.ConsumeSuccess, nil
}

func (c *clients) progress(lines *answer) error {
	c.load.lock.Lock()
	defer c.load.lock.Unlock()
	lines.add("%d %d %d", len(c.load.acknowledged), len(c.load.received), c.load.failures)
	return nil
}

func (c *clients) stopLoad(lines *answer) error {
	l := c.load
	l.lock.Lock()
	l.isRunning = false
	l.lock.Unlock()
	l.done.Wait()
	lost := func() int {
		l.lock.Lock()
		defer l.lock.Unlock()
		count := 0
		for key := range l.acknowledged {
			if !l.received[key] {
				count++
			}
		}
		return count
	}
	eventually(func() bool { return lost() == 0 })
	lines.add("lost %d", lost())
	lines.add("out of order %d", l.disorder)
	queues := []int{}
	for queue := range l.newest {
		queues = append(queues, queue)
	}
	sort.Ints(queues)
	lines.add("queues %v", queues)
	_ = l.consumer.Shutdown()
	return l.producer.Shutdown()
}
