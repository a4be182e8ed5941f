package console

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressTick is the time before a progress line appears, and between its updates.
const progressTick = time.Second

// Progress shows on one line of stderr what a command waits for and for how long, from the first second until stop is
// called. It calls what in another goroutine; if what returns "", it shows nothing. Without a terminal, or with
// --log-level, there is no line.
func (c *Console) Progress(what func() string) (stop func()) {
	if c.LogLevel != "" || !IsTerminal(c.Err) {
		return func() {}
	}
	return progress(c.Err, func() int { return Width(c.Err) }, func(text string) string { return c.Paint(Dim, text) },
		what)
}

func progress(w io.Writer, width func() int, paint func(string) string, what func() string) (stop func()) {
	began, done := time.Now(), make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(progressTick)
		defer tick.Stop()
		drawn := false
		for {
			select {
			case <-done:
				if drawn {
					fmt.Fprint(w, clearLine)
				}
				return
			case <-tick.C:
			}
			text := Safe(what())
			if text == "" {
				continue
			}
			waited := fmt.Sprintf(" (%s)", time.Since(began).Truncate(time.Second))
			room := 0
			if columns := width(); columns > 0 {
				room = max(columns-1-len(waited), LeastRoom)
			}
			fmt.Fprint(w, clearLine+paint(Cut(text, room)+waited))
			drawn = true
		}
	})
	return sync.OnceFunc(func() { close(done); shown.Wait() })
}

// clearLine erases the current line of a terminal.
const clearLine = "\r\x1b[K"
