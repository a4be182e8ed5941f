//go:build unix

package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
)

// BenchmarkRatio compares a connection to a child that answers at once with the minimal cost of such a call.
func BenchmarkRatio(b *testing.B) {
	for _, l := range benchtest.Loads() {
		b.Run(l.Name, func(b *testing.B) {
			conn := answering(b, l.Down)
			params := json.RawMessage(benchtest.Text(l.Up - 2))
			l.Compare(b, l.Floor(b), benchtest.Way{
				Name: "conn",
				Call: func() error {
					r, err := conn.Call(b.Context(), "m", params, nil)
					if err == nil && len(r) != l.Down {
						err = errors.New("an answer of the wrong size")
					}
					return err
				},
			})
		})
	}
}

// answering is a connection to a child whose results have size bytes.
func answering(b *testing.B, size int) *jsonrpc.Conn {
	in, out := benchtest.Start(b, fmt.Sprintf("answer %d", size))
	conn := jsonrpc.NewConn(ndjson.New(out, in, ndjson.Options{}), jsonrpc.Options{})
	served := make(chan error, 1)
	go func() { served <- conn.Serve(b.Context()) }()
	b.Cleanup(func() {
		conn.Close()
		<-served
	})
	return conn
}

// BenchmarkCall reports the allocations of one sequential call.
func BenchmarkCall(b *testing.B) {
	conn := answering(b, 100)
	params := json.RawMessage(benchtest.Text(98))
	o := &jsonrpc.CallOptions{Timeout: 30 * time.Second}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Call(b.Context(), "m", params, o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, payload := range map[string][]byte{
		"text": []byte(benchtest.Text(1 << 20)),
		"objects": append(append([]byte("["),
			bytes.Repeat([]byte(`{"name":"a b","n":-12.5e3,"ok":[true,null]},`), 20_000)...), "0]"...),
		"utf8": append(append([]byte(`"`), bytes.Repeat([]byte("żółw 乌龟 "), 40_000)...), '"'),
	} {
		line := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), payload...), '}')
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if m, err := jsonrpc.Decode(line); err != nil || m.Invalid != nil {
					b.Fatal(err, m.Invalid)
				}
			}
		})
	}
}
