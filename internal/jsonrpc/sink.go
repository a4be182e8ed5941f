package jsonrpc

import (
	"io"
	"time"
)

// streamSink writes to anything; it cannot try.
type streamSink struct{ w io.WriteCloser }

// streamChunk is how much must be taken within the timeout for a peer that cannot
// be watched byte by byte.
const streamChunk = 64 << 10

func (s streamSink) try([]byte) (int, error) { return 0, nil }

func (s streamSink) write(b []byte, timeout time.Duration) (int, error) {
	watch := time.AfterFunc(timeout, func() { _ = s.w.Close() }) // unblocks Write
	n, err := s.w.Write(b[:min(len(b), streamChunk)])
	if !watch.Stop() && err != nil {
		err = ErrStalled
	}
	return n, err
}
