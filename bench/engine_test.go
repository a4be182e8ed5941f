package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/testing/benchtest"
)

// The smallest engine that multiplexes JSON-RPC over pipes: it takes ids and texts out of
// lines that it knows the form of, and writes all lines that are ready at once. It has no
// cancellation, no bounds and no errors.
const (
	callForm   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"size":%d,"text":%s}}` + "\n"
	answerForm = `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%s}]}}` + "\n"
)

// between returns the part of line between two texts; the second counts from the end.
func between(line []byte, before, after string) []byte {
	line = line[bytes.Index(line, []byte(before))+len(before):]
	return line[:bytes.LastIndex(line, []byte(after))]
}

// number returns the number behind a text.
func number(line []byte, before string) (n int) {
	for _, c := range line[bytes.Index(line, []byte(before))+len(before):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// serveEngine is the child: it answers with the text of the call, or with one of the size
// that is asked for.
func serveEngine() {
	in, out := bufio.NewReaderSize(os.Stdin, 64<<10), bufio.NewWriterSize(os.Stdout, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			return
		}
		text := between(line, `"text":`, "}}")
		if size := number(line, `"size":`); size > 0 {
			text = []byte(benchtest.Text(size))
		}
		fmt.Fprintf(out, answerForm, number(line, `"id":`), text)
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

// readLine returns a line, which is valid until the next one is read if it is short.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	line = bytes.Clone(line)
	rest, err := r.ReadBytes('\n')
	return append(line, rest...), err
}

// engine is the caller's end.
type engine struct {
	in      io.Writer
	mu      sync.Mutex
	next    int
	waiting map[int]chan int // the lengths of results by the ids of calls
	pending []byte           // lines that the call that writes takes along
	writing bool
}

// engineCall returns the call of an engine's child that makes the load.
func engineCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	in, out := benchtest.Start(tb, "engine")
	e := &engine{in: in, waiting: make(map[int]chan int)}
	var reader sync.WaitGroup
	reader.Go(func() { e.read(out) })
	tb.Cleanup(func() {
		in.Close()
		reader.Wait()
	})
	size := 0
	if l.Up != l.Down {
		size = l.Down
	}
	text := benchtest.Text(l.Up)
	free := sync.Pool{New: func() any { return make(chan int, 1) }}
	return func() error {
		answer := free.Get().(chan int)
		defer free.Put(answer)
		if err := e.send(answer, size, text); err != nil {
			return err
		}
		if <-answer < l.Down {
			return errSize
		}
		return nil
	}
}

// send writes a call, and with it those that come meanwhile.
func (e *engine) send(answer chan int, size int, text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	e.waiting[e.next] = answer
	e.pending = fmt.Appendf(e.pending, callForm, e.next, size, text)
	if e.writing {
		return nil
	}
	e.writing = true
	defer func() { e.writing = false }()
	for len(e.pending) > 0 {
		lines := e.pending
		e.pending = nil
		e.mu.Unlock()
		_, err := e.in.Write(lines)
		e.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// read gives each answer to its call, until the child ends.
func (e *engine) read(out io.Reader) {
	for r := bufio.NewReaderSize(out, 64<<10); ; {
		line, err := readLine(r)
		if err != nil {
			return
		}
		id, _ := strconv.Atoi(string(between(line, `"id":`, `,"result":`)))
		e.mu.Lock()
		answer := e.waiting[id]
		delete(e.waiting, id)
		e.mu.Unlock()
		answer <- len(between(line, `"text":`, "}]}}"))
	}
}
