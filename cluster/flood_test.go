package cluster_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
)

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines contain all of what.
func (l *lines) count(what ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(what, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// A node that provokes log lines at others cannot flood their logs: each text is logged once per node and
// minute.
func TestNodeThatFloodsLogs(t *testing.T) {
	urls := sharedServers(t)
	began := time.Now()
	var logged lines
	o := nodeOptions(node{Name: "front", As: peers.AsMine, URLs: urls})
	o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	n, err := cluster.New(o)
	if err != nil {
		t.Fatal(err)
	}
	front := open(t, n, false)
	evil := newRawNode(t, urls[0], "evil")
	awaitTool(t, front, "ext_evil_y_greet", true)
	for range 30_000 {
		if err := evil.conn.Publish(evil.subjects.All("evil"), []byte("no head")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		evil.requires = []string{fmt.Sprint("feature", i)}
		evil.share(`{"id":"y","protocol":"native"}`)
	}
	evil.requires = nil
	evil.share(`{"id":"y","protocol":"native"}`, `{"name":"last","inputSchema":{"type":"object"}}`)
	awaitTool(t, front, "ext_evil_y_last", true) // listed after all others
	for _, what := range []string{"cannot be read", "cannot be used"} {
		got := logged.count(what, "node=evil")
		if most := 1 + int(time.Since(began)/time.Minute); got == 0 || got > most {
			t.Errorf("%d lines say %q, at most %d", got, what, most)
		}
	}
	other := newRawNode(t, urls[1], "other")
	unreadable := []byte(`{"k":"` + strings.Repeat("k", 10<<10) + `"}` + "\n")
	if err := other.conn.Publish(other.subjects.All("other"), unreadable); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another node is named too", func() bool { return logged.count("cannot be read", "node=other") == 1 })
	if logged.count(strings.Repeat("k", 100)) > 0 {
		t.Error("the log has as much of a message as its sender likes")
	}
}

// A node that directs answers of a server to this node cannot make them pass for messages.
func TestAnswersOfServersAreNoMessages(t *testing.T) {
	for _, answer := range []string{
		`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"KV_exthost_main_quota"}}`,
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"$KV.exthost_main_quota.x","seq":1,"data":"eyJrIjoiY2FsbCJ9Cg=="}}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"KV_exthost_main_quota","seq":0}`,
		`{"stream":"KV_exthost_main_quota","seq":7}`,
	} {
		for one := range wire.Messages([]byte(answer)) {
			if h, _, err := wire.Decode(one); err == nil {
				t.Errorf("%s is %+v", answer, h)
			}
		}
	}
}
