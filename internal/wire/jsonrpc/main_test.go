//go:build unix

package jsonrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
)

func TestMain(m *testing.M) {
	if _, child := os.LookupEnv(processtest.ScriptVar); child {
		processtest.Main(m, map[string]processtest.Verb{"floor": benchtest.FloorVerb, "answer": answerAll})
	}
	code := m.Run()
	if left := leftover(); left != "" {
		fmt.Println("goroutines left behind:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// answerAll is a child that answers every request with a result of size bytes.
func answerAll(size string) {
	n, err := strconv.Atoi(size)
	if err != nil {
		panic(err)
	}
	result := json.RawMessage(benchtest.Text(n - 2))
	out, release := ndjson.Pollable(os.Stdout)
	defer release()
	_ = jsonrpc.NewConn(ndjson.New(os.Stdin, out, ndjson.Options{}), jsonrpc.Options{
		Inline: true,
		Handle: func(context.Context, *jsonrpc.Message) (json.RawMessage, error) { return result, nil },
	}).Serve(context.Background())
}

// leftover returns the goroutines of connections and transports that are still running.
func leftover() string {
	buf := make([]byte, 1<<20)
	for start := time.Now(); ; runtime.Gosched() {
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "jsonrpc.(*") || strings.Contains(g, "ndjson.(*") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Since(start) > time.Minute {
			return strings.Join(left, "\n\n")
		}
	}
}
