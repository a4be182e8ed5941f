package ndjson

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// A writer enlarges its pipe for a large frame, but not for a small one. A closed transport makes room for other large
// pipes.
func TestLargeFrameEnlargesPipe(t *testing.T) {
	before := largePipes.Load()
	for size, want := range map[int]int{100: 64 << 10, 1 << 20: largePipe} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		m := jsonrpc.Message{
			ID:     json.RawMessage("1"),
			Result: json.RawMessage(`"` + strings.Repeat("x", size) + `"`),
		}
		line, err := jsonrpc.Append(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		transport := New(io.NopCloser(strings.NewReader("")), w, Options{})
		go func() { done <- transport.Write(context.Background(), m) }()
		if _, err = io.ReadFull(r, make([]byte, len(line)+1)); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := 0
		control(r, func(fd uintptr) { got, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) })
		if got != want {
			t.Errorf("a transport that writes a frame of %d bytes has a pipe of %d, want %d", size, got, want)
		}
		transport.Close()
		r.Close()
		w.Close()
	}
	if now := largePipes.Load(); now != before {
		t.Errorf("%d large pipes count after all are closed", now-before)
	}
}
