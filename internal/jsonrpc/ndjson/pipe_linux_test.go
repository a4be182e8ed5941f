package ndjson

import (
	"bufio"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// pipeSize returns how many bytes a pipe holds.
func pipeSize(t *testing.T, end *os.File) int {
	t.Helper()
	n, err := unix.FcntlInt(end.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLargeFramesMakePipesWide sends large frames in both directions: each end makes the
// pipe wide, no more than maxWide pipes are, and closing makes room for others.
func TestLargeFramesMakePipesWide(t *testing.T) {
	exchange := func() (widths [2]int, closeAll func()) {
		peerIn, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r, peerOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		l := New(r, w, Options{})
		sent := make(chan error, 1)
		go func() { sent <- l.Write(t.Context(), request(1, 2<<20)) }()
		line, err := bufio.NewReaderSize(peerIn, 1<<16).ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if m, err := jsonrpc.Decode(line); err != nil || len(m.Params) != 2<<20+2 {
			t.Fatalf("%d bytes of params, %v", len(m.Params), err)
		}
		go func() { _, err := peerOut.Write(line); sent <- err }()
		if m, err := l.Read(); err != nil || len(m.Params) != 2<<20+2 {
			t.Fatalf("%d bytes of params, %v", len(m.Params), err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		widths = [2]int{pipeSize(t, peerIn), pipeSize(t, peerOut)}
		return widths, func() { l.Close(); peerIn.Close(); peerOut.Close() }
	}
	before := wide.Load() // other tests of the package may run
	var open []func()
	for range maxWide / 2 {
		widths, closeAll := exchange()
		open = append(open, closeAll)
		if before == 0 && widths != [2]int{widePipe, widePipe} {
			t.Errorf("a pipe is not wide: %d", widths)
		}
	}
	if before == 0 {
		widths, closeAll := exchange()
		open = append(open, closeAll)
		if widths[0] == widePipe || widths[1] == widePipe {
			t.Errorf("more than %d pipes are wide: %d", maxWide, widths)
		}
	}
	for _, closeAll := range open {
		closeAll()
		closeAll() // closing twice counts once
	}
	if n := wide.Load(); n != before {
		t.Errorf("%d pipes count as wide after all are closed, want %d", n, before)
	}
}
