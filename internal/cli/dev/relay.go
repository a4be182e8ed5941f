package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/cli/console"
)

// relay stands in for an extension: it passes messages between the host and the process
// that attaches. It ends with that process, so that the host sees an end, and when the
// host closes its stdin.
func relay(ctx context.Context, c *console.Console, socket string, argv []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// The cookie would have the host kill the process, which is the author's.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "EXTHOST_COOKIE=") })
	header, err := json.Marshal(attachment{dir, argv, env})
	if err != nil {
		return err
	}
	l, err := listenFor(socket)
	if err != nil {
		return err
	}
	defer l.Close() // and removes the socket
	defer context.AfterFunc(ctx, func() { l.Close() })()
	f := &feed{unheard: func() { l.Close() }}
	go f.run(c.In) // ends with stdin, or with this process
	fmt.Fprintf(c.Err, "I! it is not started; in another terminal: exthost attach %s\n", socket)
	conn, err := l.AcceptUnix()
	if err != nil && (f.ended() || ctx.Err() != nil) {
		return nil // no process attached before the end
	}
	if err != nil {
		return err
	}
	l.Close() // only one process attaches
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(append(header, '\n')); err != nil {
		return err
	}
	f.into(conn)
	if _, err := io.Copy(c.Out, conn); err != nil && ctx.Err() == nil {
		return err
	}
	if f.ended() {
		return nil
	}
	return errors.New("the attached process has ended")
}

// listenFor opens the socket. It replaces one that an earlier relay left.
func listenFor(socket string) (*net.UnixListener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o600)
}

// feed passes on the messages of the host, and keeps them until a process attaches.
type feed struct {
	unheard func() // called when the host ends before a process attaches

	mu   sync.Mutex // guards what follows
	kept []byte
	to   *net.UnixConn // nil: no process is attached
	end  bool
}

func (f *feed) run(from io.Reader) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		f.mu.Lock()
		if f.to != nil {
			_, _ = f.to.Write(chunk[:n]) // relay sees the end of the process where it reads
		} else {
			f.kept = append(f.kept, chunk[:n]...)
		}
		if err == nil {
			f.mu.Unlock()
			continue
		}
		f.end = true
		to := f.to
		f.mu.Unlock()
		if to == nil {
			f.unheard()
		} else {
			_ = to.CloseWrite()
		}
		return
	}
}

// into passes everything on to conn from now on.
func (f *feed) into(conn *net.UnixConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = conn.Write(f.kept)
	f.kept, f.to = nil, conn
	if f.end {
		_ = conn.CloseWrite()
	}
}

func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}
