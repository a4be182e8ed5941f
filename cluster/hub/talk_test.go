//go:build !slim

package hub

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// alone opens a hub that exchanges records, but whose only peer is itself.
func alone(t *testing.T, log slog.Handler) *Hub {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	if _, err := Init(dir, "main", []string{"tls://127.0.0.1:7822"}); err != nil {
		t.Fatal(err)
	}
	h, err := Open(t.Context(), Options{Dir: dir, Listen: "127.0.0.1:0", Routes: "127.0.0.1:0", Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, h) })
	return h
}

func finish(t *testing.T, h *Hub) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// A hub whose connection to its server broke publishes its record on the next one, though the record is unchanged.
func TestRecordIsToldOnANewConnection(t *testing.T) {
	processtest.Leaks(t)
	h := alone(t, slog.NewTextHandler(t.Output(), nil))
	closed := make(chan struct{})
	conn, err := h.user(h.files.system, nil, []string{recordSubject},
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { conn.Close(); <-closed }()
	own, err := conn.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	records, err := conn.SubscribeSync(recordSubject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := records.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, id := range clients(t, h) {
		if id != own {
			if err := h.server.DisconnectClientByID(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := conn.Flush(); err != nil { // after what the closed connection published
		t.Fatal(err)
	}
	for n, _, _ := records.Pending(); n > 0; n-- {
		if _, err := records.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := records.NextMsg(time.Minute); err != nil {
		t.Errorf("no record after the connection broke: %v", err)
	}
}

// clients returns the connections of users to the server of h.
func clients(t *testing.T, h *Hub) (ids []uint64) {
	t.Helper()
	all, err := h.server.Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		ids = append(ids, c.Cid)
	}
	return ids
}

// What the server refuses to a user of the hub is logged, and does not go to stderr as text.
func TestRefusalsOfTheOwnServerAreLogged(t *testing.T) {
	processtest.Leaks(t)
	var log bytes.Buffer
	h := alone(t, slog.NewTextHandler(&log, nil))
	closed := make(chan struct{})
	conn, err := h.user(h.files.system, []string{recordSubject}, nil,
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish("exthost.other", nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-closed // the last callback
	finish(t, h)
	if text := log.String(); !strings.Contains(text, "connection to its own server") {
		t.Errorf("the log: %s", text)
	}
}
