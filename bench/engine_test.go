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

// A minimal engine that multiplexes JSON-RPC over pipes. It extracts ids and texts from lines of known form, and writes
// all pending lines at once. It has no cancellation, limits or errors.
const (
	callForm   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"size":%d,"text":%s}}` + "\n"
	answerForm = `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%s}]}}` + "\n"
)

// between returns the part of line between before and the last occurrence of after.
func between(line []byte, before, after string) []byte {
	line = line[bytes.Index(line, []byte(before))+len(before):]
	return line[:bytes.LastIndex(line, []byte(after))]
}

// number returns the number after a text.
func number(line []byte, before string) (n int) {
	for _, c := range line[bytes.Index(line, []byte(before))+len(before):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// serveEngine is the child. It responds with the text of the call, or with a text of the requested size.
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

// readLine returns a line. A short one is valid only until the next read.
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
	waiting map[int]chan int // lengths of results by call id
	pending []byte           // lines for the call that is writing
	writing bool
}

// engineCall returns a function that makes the load's call.
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

// send writes a call, together with calls that arrive meanwhile.
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

// read delivers the responses until the child ends.
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
