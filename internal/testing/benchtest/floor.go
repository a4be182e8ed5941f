package benchtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// chunk is the size of one read or write: the capacity of a pipe.
const chunk = 64 << 10

// FloorVerb is the floor's child; pass it to [processtest.Main] as "floor". It reads
// payloads of one size and answers each with a payload of another size. If both sizes are
// equal it copies its input.
func FloorVerb(sizes string) {
	var up, down int
	if _, err := fmt.Sscan(sizes, &up, &down); err != nil {
		panic(err)
	}
	buf := make([]byte, chunk)
	for in, out := io.Reader(os.Stdin), io.Writer(os.Stdout); ; {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		if up == down {
			_, _ = out.Write(buf[:n])
			continue
		}
		if err := discard(in, buf, up-n); err != nil {
			return
		}
		for left := down; left > 0; left -= chunk {
			_, _ = out.Write(buf[:min(left, chunk)])
		}
	}
}

func discard(r io.Reader, buf []byte, n int) error {
	for n > 0 {
		m, err := r.Read(buf[:min(n, len(buf))])
		if err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// Start runs the test binary as a scripted child until the benchmark ends, and returns its
// stdin and stdout.
func Start(tb testing.TB, script string) (in, out *os.File) {
	tb.Helper()
	path, env := processtest.Script(tb, script)
	cmd := exec.Command(path)
	cmd.Env = env
	return StartCommand(tb, cmd)
}

// StartCommand runs a child until the benchmark ends, and returns its stdin and stdout.
func StartCommand(tb testing.TB, cmd *exec.Cmd) (in, out *os.File) {
	tb.Helper()
	inR, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, outW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	inR.Close()
	outW.Close()
	tb.Cleanup(func() {
		in.Close()
		out.Close()
		if err := cmd.Wait(); err != nil {
			tb.Error(err)
		}
	})
	return in, out
}

// Floor starts the floor's child and returns the Way that calls it. A single caller reads its answers itself; several
// callers share one reader.
func (l Load) Floor(b testing.TB) Way {
	b.Helper()
	f := &floor{
		load:    l,
		frame:   bytes.Repeat([]byte("x"), l.Up),
		buf:     make([]byte, chunk),
		answers: make(chan struct{}, l.Callers),
	}
	f.in, f.out = Start(b, fmt.Sprintf("floor %d %d", l.Up, l.Down))
	way := Way{"floor", f.alone}
	if l.Callers > 1 {
		way.Call = f.together
		var wg sync.WaitGroup
		wg.Go(f.read)
		b.Cleanup(func() {
			f.in.Close()
			f.out.Close()
			wg.Wait()
		})
	}
	return way
}

type floor struct {
	load    Load
	in, out *os.File
	frame   []byte
	buf     []byte
	answers chan struct{}
}

func (f *floor) alone() error {
	if len(f.frame) <= chunk {
		if _, err := f.in.Write(f.frame); err != nil {
			return err
		}
		return discard(f.out, f.buf, f.load.Down)
	}
	written := make(chan error, 1) // exceeds the pipe's capacity: write and read concurrently
	go func() { _, err := f.in.Write(f.frame); written <- err }()
	if err := discard(f.out, f.buf, f.load.Down); err != nil {
		return err
	}
	return <-written
}

func (f *floor) together() error {
	_, err := f.in.Write(f.frame)
	if err == nil {
		<-f.answers
	}
	return err
}

func (f *floor) read() {
	for rest := 0; ; {
		n, err := f.out.Read(f.buf)
		if err != nil {
			return
		}
		for rest += n; rest >= f.load.Down; rest -= f.load.Down {
			f.answers <- struct{}{}
		}
	}
}

// Text returns a JSON string of size characters.
func Text(size int) string { return `"` + strings.Repeat("x", size) + `"` }
