package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// Fifteen clients of 34 extensions in one directory have 34 children, and a relay of at most 9 MiB each: 8 MiB on a
// quiet machine; on a busy one each additional thread of a relay takes 60 KiB.
func TestRelayedClientsAtFullSize(t *testing.T) {
	if !stormtest.Full {
		t.Skip("EXTHOST_STORM is not set: 15 clients of 34 extensions are not measured")
	}
	processtest.Leaks(t)
	files := map[string]string{}
	for i := range 34 {
		files[fmt.Sprintf("extensions/x%d/plugin.toml", i)] = strings.Replace(notesManifest, `"notes"`,
			fmt.Sprintf(`"x%d"`, i), 1)
	}
	dir := project(t, files)
	defer stopHosts(t, dir)
	clients := make([]*client, 15)
	for i := range clients {
		clients[i] = startClient(t, dir)
	}
	for i, c := range clients {
		c.open(t)
		answer := c.say(t, call(1, fmt.Sprintf("ext_x%d_search", i), `{"query":"x"}`))
		if !strings.Contains(answer, `"result"`) {
			t.Errorf("client %d: %s", i, answer)
		}
	}
	stormtest.Claim(t, "children of 15 clients of 34 extensions", 34, func() (int, string) {
		n, host := 0, hostOf(t, dir)
		for _, pid := range childrenOf(t, host) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(line), "extension\x00notes") {
				n++
			}
		}
		if n < 34 {
			t.Errorf("%d children", n)
		}
		return n, fmt.Sprint("of host ", host)
	})
	stormtest.Claim(t, "anonymous memory of a relay, KiB", 9<<10, func() (most int, how string) {
		for _, c := range clients {
			most = max(most, anonymous(t, c.Process.Pid))
		}
		return most, "the most of 15"
	})
	for _, c := range clients {
		c.leave(t)
	}
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// anonymous returns the anonymous memory of a process, in KiB.
func anonymous(t *testing.T, pid int) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// BenchmarkRelayedCall compares a call through a relay with a call of a client that has its own host, directly and
// through cat, which no relay can beat. The ratios are those of the medians.
func BenchmarkRelayedCall(b *testing.B) {
	processtest.Leaks(b)
	dir := project(b, map[string]string{"extensions/notes/plugin.toml": notesManifest})
	defer stopHosts(b, dir)
	copied := &client{Cmd: program(dir)}
	copied.Path, copied.Args = "/bin/sh", []string{"sh", "-c", "cat | exthost serve --stdio --own | cat"}
	copied.begin(b)
	clients := []*client{startClient(b, dir, "--own"), copied, startClient(b, dir)}
	for _, c := range clients {
		defer c.leave(b)
		c.open(b)
	}
	of := make([]stormtest.Durations, len(clients))
	for i := range b.N + 100 {
		for j, c := range clients {
			began := time.Now()
			if answer := c.say(b,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_notes_search","arguments":{"query":"milk"}}}`, i)); !strings.Contains(answer, `"result"`) {
				b.Fatal(answer)
			}
			if i >= 100 {
				of[j] = append(of[j], time.Since(began))
			}
		}
	}
	own, floor, relayed := of[0].Quantile(0.5), of[1].Quantile(0.5), of[2].Quantile(0.5)
	b.ReportMetric(float64(own.Microseconds()), "own-p50-µs")
	b.ReportMetric(float64(floor.Microseconds()), "cat-p50-µs")
	b.ReportMetric(float64(relayed.Microseconds()), "relayed-p50-µs")
	b.ReportMetric(float64(relayed)/float64(own), "ratio")
	b.ReportMetric(float64(relayed)/float64(floor), "ratio-to-cat")
}
