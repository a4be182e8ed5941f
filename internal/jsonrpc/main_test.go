//go:build unix

package jsonrpc

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary poses as its own child process.
const childEnv = "JSONRPC_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		code := m.Run()
		if left := leftover(); left != "" {
			fmt.Println("goroutines left behind:\n" + left)
			code = 1
		}
		os.Exit(code)
	case "bytes":
		_, _ = io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin}, make([]byte, 64<<10))
	case "echo":
		_ = syscall.SetNonblock(1, true) // or every answer would need the writing goroutine
		l := NewLineTransport(os.Stdin, os.NewFile(1, "stdout"), LineOptions{})
		_ = NewConn(l, Options{Inline: true, Handle: echo}).Serve(context.Background())
	}
}

// leftover returns the goroutines of connections and transports that do not end
// by themselves.
func leftover() string {
	buf := make([]byte, 1<<20)
	for start := time.Now(); ; runtime.Gosched() {
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "jsonrpc.(*") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Since(start) > 5*time.Second {
			return strings.Join(left, "\n\n")
		}
	}
}

// startChild runs this binary as a child of the given kind over two pipes.
func startChild(tb testing.TB, kind string) (in *os.File, out *os.File) {
	tb.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	inR.Close()
	outW.Close()
	tb.Cleanup(func() {
		inW.Close()
		outR.Close()
		_ = cmd.Wait()
	})
	return inW, outR
}
