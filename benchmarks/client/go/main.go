// The official Go client takes the orders of benchmarks/client/worker.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	inFlight       = 64
	batchCount     = 32
	untimedPart    = 5
	consumeTimeout = 60 * time.Second
)

var nameServer string

func main() {
	rlog.SetLogLevel("fatal")
	nameServer = os.Args[1]
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		report, err := obey(strings.Fields(orders.Text()))
		if err != nil {
			fmt.Fprintln(os.Stderr, orders.Text(), err)
			os.Exit(1)
		}
		fmt.Println("=", report)
	}
}

func obey(order []string) (string, error) {
	switch order[0] {
	case "produce":
		size, _ := strconv.Atoi(order[3])
		seconds, _ := strconv.ParseFloat(order[4], 64)
		return produce(order[1], order[2], size, time.Duration(seconds*float64(time.Second)))
	case "consume":
		size, _ := strconv.Atoi(order[3])
		count, _ := strconv.Atoi(order[4])
		return consume(order[1], order[2], newTally(int64(count), size))
	case "first":
		return first(order[1])
	}
	return "", fmt.Errorf("no order")
}

type clock struct {
	wall time.Time
	cpu  time.Duration
}

func newClock() clock { return clock{time.Now(), cpuTime()} }

func (c clock) report(messages int64) string {
	cpu := cpuTime() - c.cpu
	return fmt.Sprintf("%d %.6f %.6f", messages, time.Since(c.wall).Seconds(), cpu.Seconds())
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func instance() string { return fmt.Sprintf("bench-go-%d", time.Now().UnixNano()) }

// Producing

func started(group string) (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(producer.WithNameServer([]string{nameServer}),
		producer.WithGroupName(group), producer.WithInstanceName(instance()))
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func produce(mode, topic string, size int, span time.Duration) (string, error) {
	sender, err := started("bench-go")
	if err != nil {
		return "", err
	}
	defer func() { _ = sender.Shutdown() }()
	body := make([]byte, size)
	if err = send(sender, topic, body, 1); err != nil {
		return "", err
	}
	callers, count := 1, 1
	switch mode {
	case "one":
	case "in-flight":
		callers = inFlight
	case "batch":
		count = batchCount
	default:
		return "", fmt.Errorf("no way to produce: %s", mode)
	}
	var sent int64
	var failure atomic.Value
	var all sync.WaitGroup
	started := newClock()
	for caller := 0; caller < callers; caller++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Since(started.wall) < span {
				if err := send(sender, topic, body, count); err != nil {
					failure.Store(err)
					return
				}
				atomic.AddInt64(&sent, int64(count))
			}
		}()
	}
	all.Wait()
	report := started.report(sent)
	if err := failure.Load(); err != nil {
		return "", err.(error)
	}
	return report, nil
}

func send(sender rocketmq.Producer, topic string, body []byte, count int) error {
	messages := make([]*primitive.Message, count)
	for number := range messages {
		messages[number] = primitive.NewMessage(topic, body)
	}
	result, err := sender.SendSync(context.Background(), messages...)
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", result.Status)
	}
	return err
}

func first(topic string) (string, error) {
	begun := time.Now()
	sender, err := started("bench-go-first")
	if err != nil {
		return "", err
	}
	if err = send(sender, topic, []byte("first"), 1); err != nil {
		return "", err
	}
	took := time.Since(begun)
	return fmt.Sprintf("%.6f", took.Seconds()), sender.Shutdown()
}

// Consuming

// Counts what arrives; its clock runs from the first timed message to the last one.
type tally struct {
	numbers, count, untimed int64
	size                    int
	begun                   clock
	done                    chan string
}

func newTally(count int64, size int) *tally {
	return &tally{count: count, untimed: count / untimedPart, size: size, done: make(chan string, 1)}
}

func (t *tally) see(body []byte) {
	if len(body) != t.size {
		panic(fmt.Sprintf("a body of %d bytes", len(body)))
	}
	switch number := atomic.AddInt64(&t.numbers, 1); number {
	case t.untimed:
		t.begun = newClock()
	case t.count:
		t.done <- t.begun.report(number - t.untimed)
	}
}

func consume(mode, topic string, seen *tally) (string, error) {
	group := instance()
	options := []consumer.Option{
		consumer.WithNameServer([]string{nameServer}),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if mode == "batch" {
		options = append(options, consumer.WithConsumeMessageBatchMaxSize(batchCount))
	}
	reader, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return "", err
	}
	err = reader.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				seen.see(message.Body)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return "", err
	}
	if err = reader.Start(); err != nil {
		return "", err
	}
	defer func() { _ = reader.Shutdown() }()
	select {
	case report := <-seen.done:
		return report, nil
	case <-time.After(consumeTimeout):
		return "", fmt.Errorf("only %d messages came", atomic.LoadInt64(&seen.numbers))
	}
}
