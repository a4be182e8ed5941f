package httpserver

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestCloseEndsAWriteThatNobodyReads checks that a handler can return while another goroutine writes an answer that
// the client does not read.
func TestCloseEndsAWriteThatNobodyReads(t *testing.T) {
	var writing sync.WaitGroup
	defer writing.Wait()
	returned := make(chan bool, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := newJSONLines(w)
		begun := make(chan struct{})
		writing.Go(func() {
			line := []byte(strings.Repeat("x", 1<<20) + "\n")
			_, err := lines.Write(line)
			close(begun)
			for err == nil {
				_, err = lines.Write(line)
			}
			if _, err := lines.Write(line); err == nil {
				t.Error("a line was written after Close")
			}
		})
		<-begun
		returned <- lines.Close()
	}))
	defer s.Close()
	client, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if !<-returned {
		t.Error("nothing was written")
	}
}

// TestCloseKeepsTheEndOfAnAnswer checks that a reader gets everything written, and the end.
func TestCloseKeepsTheEndOfAnAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := newJSONLines(w)
		for range 3 {
			if _, err := io.WriteString(lines, "{}\n"); err != nil {
				t.Error(err)
			}
		}
		if !lines.Close() {
			t.Error("nothing was written")
		}
	}))
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if all, err := io.ReadAll(resp.Body); err != nil || string(all) != "{}\n{}\n{}\n" {
		t.Errorf("%q, %v", all, err)
	}
}
