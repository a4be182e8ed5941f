package player

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// FuzzTape replays arbitrary cassettes.
func FuzzTape(f *testing.F) {
	for _, text := range []string{
		adds,
		talks,
		`{"received":{"id":1,"method":"x"}}` + "\n" + `{"sent":{"id":1}}` + "\n" + `{"end":{"kind":"odd"}}` + "\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "x")
		var records []byte
		for _, line := range splitLines(text) {
			if len(line) > 1 && line[0] == '{' {
				records = append(append(records, `{"at":2,"run":1,`...), line[1:]...)
			} else {
				records = append(records, line...)
			}
			records = append(records, '\n')
		}
		if err := os.WriteFile(file, append([]byte(head), records...), 0o600); err != nil {
			t.Fatal(err)
		}
		tape, err := Open(Options{File: file, Nearest: true})
		if err != nil {
			return
		}
		p, err := tape.Play(false)
		if err != nil {
			return
		}
		calls, err := tape.Calls()
		if err != nil {
			t.Fatal(err)
		}
		c := jsonrpc.NewConn(p, jsonrpc.Options{})
		ended := make(chan error, 1)
		go func() { ended <- c.Serve(context.Background()) }()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		for _, n := range calls[:min(len(calls), 3)] {
			if !n.Answered { // it may never be answered
				continue
			}
			params, _ := json.Marshal(map[string]any{"name": n.Tool, "arguments": n.Arguments})
			_, _ = c.Call(ctx, "tools/call", params, nil) // the nearest call may be a canceled one
		}
		cancel()
		c.Close()
		<-ended
	})
}

func splitLines(text string) (lines []string) {
	at := 0
	for i := range len(text) {
		if text[i] == '\n' {
			lines, at = append(lines, text[at:i]), i+1
		}
	}
	return append(lines, text[at:])
}
