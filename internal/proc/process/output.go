package process

import (
	"io"
	"os"
	"time"
)

// Output collects the stdout of one process up to a limit.
type Output struct {
	Overflow chan struct{} // closed once the output exceeds the limit

	file *os.File
	data []byte
	done chan struct{} // closed at the end of the output
}

// CollectStdout reads up to limit bytes of stdout in the background. [Output.End] must be called after the exit of the
// process.
func (p *Process) CollectStdout(limit int) *Output {
	o := &Output{file: p.Stdout, done: make(chan struct{}), Overflow: make(chan struct{})}
	go func() { // ends when the file ends or End closes it
		defer close(o.done)
		o.data, _ = io.ReadAll(io.LimitReader(o.file, int64(limit)+1))
		if len(o.data) > limit {
			close(o.Overflow)
		}
	}()
	return o
}

// End returns the output of a process that has ended, and whether it is within the limit. It waits at most grace for
// the last output, as another process may hold the pipe.
func (o *Output) End(grace time.Duration) (data []byte, complete bool) {
	select {
	case <-o.done:
	case <-time.After(grace):
	}
	o.file.Close()
	<-o.done
	select {
	case <-o.Overflow:
		return o.data, false
	default:
		return o.data, true
	}
}
