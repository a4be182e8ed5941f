package sdk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
)

// BenchmarkLanguages compares an extension on the SDK of each language with a minimal loop in that language: read
// a line, parse it, call a function, write the answer.
func BenchmarkLanguages(b *testing.B) {
	for _, lang := range []struct{ name, program, suffix string }{
		{"python", "python3", ".py"},
		{"node", "node", ".mjs"},
	} {
		b.Run(lang.name, func(b *testing.B) {
			program, err := exec.LookPath(lang.program)
			if err != nil {
				b.Skipf("%s is missing: the SDK in sdk/%s is NOT MEASURED", lang.program, lang.name)
			}
			for _, l := range benchtest.Loads() {
				b.Run(l.Name, func(b *testing.B) {
					l.Calls /= 2 // these languages are slower than the loads assume
					l.Compare(b, calls(b, l, "loop", program, "testdata/loop"+lang.suffix),
						calls(b, l, "sdk", program, "testdata/tools"+lang.suffix))
				})
			}
		})
	}
}

// calls returns a benchmark way that calls a program's tools over a connection of the host's kind.
func calls(b *testing.B, l benchtest.Load, name string, argv ...string) benchtest.Way {
	b.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=python")
	in, out := benchtest.StartCommand(b, cmd)
	conn := jsonrpc.NewConn(ndjson.New(out, in, ndjson.Options{}), jsonrpc.Options{})
	served := make(chan error, 1)
	go func() { served <- conn.Serve(b.Context()) }()
	b.Cleanup(func() {
		conn.Close()
		<-served
	})
	params := fmt.Appendf(nil, `{"name":"echo","arguments":{"text":%s}}`, benchtest.Text(l.Up))
	if l.Up != l.Down {
		params = fmt.Appendf(nil, `{"name":"write","arguments":{"size":%d,"text":%s}}`, l.Down, benchtest.Text(l.Up))
	}
	return benchtest.Way{
		Name: name,
		Call: func() error {
			r, err := conn.Call(b.Context(), "tools/call", json.RawMessage(params), nil)
			if err == nil && len(r) < l.Down {
				err = errors.New("an answer of the wrong size")
			}
			return err
		},
	}
}
