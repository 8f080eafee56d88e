// Runs scenarios one after another with the official Go client: interop NAMESRV PREFIX.
// One scenario per input line; the answer is a line with the number of output lines, then those
// lines. What is printed depends on what the broker does, not on times, addresses or ids.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	rlog.SetLogLevel(logLevel())
	clients := newClients(os.Args[1], os.Args[2])
	if len(os.Args) > 3 {
		runMember(clients, os.Args[3], os.Args[4], len(os.Args) > 5 && os.Args[5] == "orderly")
		return
	}
	scenarios := map[string]func(*answer) error{
		"send":        clients.send,
		"sizes":       clients.sizes,
		"empty":       clients.empty,
		"unknown":     clients.unknown,
		"ordered":     clients.ordered,
		"rebalance":   clients.rebalance,
		"broadcast":   clients.broadcast,
		"filter":      clients.filter,
		"namespace":   clients.namespace,
		"reset":       clients.reset,
		"pull":        clients.pull,
		"lite":        clients.lite,
		"retry":       clients.retry,
		"suspend":     clients.suspend,
		"later":       clients.later,
		"transaction": clients.transaction,
		"reply":       clients.reply,
		"trace":       clients.trace,
		"load":        clients.startLoad,
		"loaded":      clients.progress,
		"unload":      clients.stopLoad,
	}
	fmt.Println("ready")
	for clients.input.Scan() {
		lines := &answer{}
		scenario, isKnown := scenarios[clients.input.Text()]
		if !isKnown {
			lines.add("failed: no such scenario")
		} else if err := scenario(lines); err != nil {
			lines.add("failed %v", err)
		}
		clients.closeAll()
		fmt.Printf("answer %d\n", len(lines.lines))
		for _, line := range lines.lines {
			fmt.Println(line)
		}
	}
}

type answer struct{ lines []string }

func (a *answer) add(format string, values ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, values...))
}

// The client reports what it repeats anyway; SCENARIO_LOG_LEVEL=info shows it.
func logLevel() string {
	if level := os.Getenv("SCENARIO_LOG_LEVEL"); level != "" {
		return level
	}
	return "fatal"
}

func newInput() *bufio.Scanner { return bufio.NewScanner(os.Stdin) }
