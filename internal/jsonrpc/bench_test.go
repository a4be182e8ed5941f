//go:build unix

package jsonrpc

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A shape is one way of loading a connection.
type shape struct {
	name    string
	size    int // bytes of payload
	callers int
	calls   int // per repetition
}

// payload returns a JSON string of the given length.
func payload(size int) json.RawMessage {
	return append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')
}

// BenchmarkRatio measures a conversation with a child that echoes, against the
// floor: a child that copies bytes, over the same pipes with the same payloads.
// The two take turns, so that whatever else the machine does hits both.
func BenchmarkRatio(b *testing.B) {
	for _, s := range []shape{
		{"sequential/100B", 100, 1, 10_000},
		{"callers64/100B", 100, 64, 40_000},
		{"sequential/1MiB", 1 << 20, 1, 100},
	} {
		b.Run(s.name, func(b *testing.B) { s.run(b) })
	}
}

const repetitions = 9

func (s shape) run(b *testing.B) {
	in, out := startChild(b, "bytes")
	floor := newByteCaller(in, out, s)
	in, out = startChild(b, "echo")
	conn := NewConn(NewLineTransport(out, in, LineOptions{}), Options{})
	served := make(chan error, 1)
	go func() { served <- conn.Serve(b.Context()) }()
	defer func() {
		conn.Close()
		<-served
	}()
	params := payload(s.size)
	call := func() {
		if r, err := conn.Call(b.Context(), "echo", params, nil); err != nil || len(r) != len(params) {
			b.Errorf("call: %d bytes, %v", len(r), err)
		}
	}
	for b.Loop() {
		var p50, perCall [2][]time.Duration
		for range repetitions {
			for i, f := range []func(){floor.call, call} {
				median, total := s.measure(f)
				p50[i] = append(p50[i], median)
				perCall[i] = append(perCall[i], total/time.Duration(s.calls))
			}
		}
		report(b, "p50", p50)
		report(b, "call", perCall)
	}
	floor.close()
}

// report prints the medians and what the floor is to us.
func report(b *testing.B, name string, took [2][]time.Duration) {
	for i := range took {
		slices.Sort(took[i])
	}
	floor, ours := took[0][repetitions/2], took[1][repetitions/2]
	b.ReportMetric(float64(floor.Nanoseconds()), name+"-floor-ns")
	b.ReportMetric(float64(ours.Nanoseconds()), name+"-ns")
	b.ReportMetric(float64(ours)/float64(floor), name+"-ratio")
}

// measure makes the calls and returns the median and the whole of the time.
func (s shape) measure(call func()) (median, total time.Duration) {
	var left atomic.Int64
	left.Store(int64(s.calls))
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	start := time.Now()
	for range s.callers {
		wg.Go(func() {
			var mine []time.Duration
			for left.Add(-1) >= 0 {
				t := time.Now()
				call()
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	total = time.Since(start)
	slices.Sort(took)
	return took[len(took)/2], total
}

// byteCaller is the floor. A single caller writes and reads for itself; several
// share one reader that wakes as many of them as frames came back.
type byteCaller struct {
	in, out *os.File
	frame   []byte
	back    []byte
	single  bool
	answers chan struct{}
	done    chan struct{}
}

func newByteCaller(in, out *os.File, s shape) *byteCaller {
	c := &byteCaller{in: in, out: out, frame: payload(s.size), back: make([]byte, 64<<10),
		single: s.callers == 1, answers: make(chan struct{}, s.callers), done: make(chan struct{})}
	if c.single {
		close(c.done)
	} else {
		go c.read()
	}
	return c
}

func (c *byteCaller) read() {
	defer close(c.done)
	for rest := 0; ; {
		n, err := c.out.Read(c.back)
		if err != nil {
			return
		}
		for rest += n; rest >= len(c.frame); rest -= len(c.frame) {
			c.answers <- struct{}{}
		}
	}
}

func (c *byteCaller) call() {
	switch {
	case !c.single:
		_, _ = c.in.Write(c.frame)
		<-c.answers
	case len(c.frame) <= 4096:
		_, _ = c.in.Write(c.frame)
		_, _ = io.ReadFull(c.out, c.back[:len(c.frame)])
	default: // more than the pipes hold: write and read at once
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.in.Write(c.frame) })
		_, _ = io.CopyN(io.Discard, c.out, int64(len(c.frame)))
		wg.Wait()
	}
}

func (c *byteCaller) close() {
	c.in.Close()
	c.out.Close()
	<-c.done
}

// BenchmarkCall shows what one sequential call to an echoing child allocates.
func BenchmarkCall(b *testing.B) {
	in, out := startChild(b, "echo")
	conn := NewConn(NewLineTransport(out, in, LineOptions{}), Options{})
	served := make(chan error, 1)
	go func() { served <- conn.Serve(b.Context()) }()
	params := payload(100)
	o := &CallOptions{Timeout: 30 * time.Second}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Call(b.Context(), "echo", params, o); err != nil {
			b.Fatal(err)
		}
	}
	conn.Close()
	<-served
}

func BenchmarkDecode(b *testing.B) {
	for name, payload := range map[string][]byte{
		"text":    payload(1 << 20),
		"objects": append(append([]byte("["), bytes.Repeat([]byte(`{"name":"a b","n":-12.5e3,"ok":[true,null]},`), 20_000)...), "0]"...),
		"utf8":    append(append([]byte(`"`), bytes.Repeat([]byte("żółw 乌龟 "), 40_000)...), '"'),
	} {
		line := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), payload...), '}')
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if m, err := Decode(line); err != nil || m.Invalid != nil {
					b.Fatal(err, m.Invalid)
				}
			}
		})
	}
}
