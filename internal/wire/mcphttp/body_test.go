package mcphttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadBody(t *testing.T) {
	const limit = 100
	full := strings.Repeat("x", limit)
	for name, test := range map[string]struct {
		contentType string
		body        io.Reader
		status      int // 200: the body is read
	}{
		"at the limit":      {"application/json", strings.NewReader(full), 200},
		"charset":           {"Application/JSON; charset=utf-8", strings.NewReader(full), 200},
		"over, said so":     {"application/json", strings.NewReader(full + "x"), 413},
		"over, unannounced": {"application/json", io.MultiReader(strings.NewReader(full + "x")), 413},
		"text":              {"text/plain", strings.NewReader(full), 415},
		"no type":           {"", strings.NewReader(full), 415},
		"form":              {"application/x-www-form-urlencoded", strings.NewReader(full), 415},
		"too slow": {"application/json", iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded)),
			408},
		"cut short":            {"application/json", iotest.ErrReader(io.ErrUnexpectedEOF), 400},
		"broken":               {"application/json", iotest.ErrReader(errors.New("reset")), 400},
		"a claim and no bytes": {"application/json", iotest.ErrReader(io.ErrUnexpectedEOF), 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", test.body)
			r.Header.Set("Content-Type", test.contentType)
			w := httptest.NewRecorder()
			body, ok := ReadBody(w, r, limit)
			if ok != (test.status == 200) || w.Code != test.status || ok && !bytes.Equal(body, []byte(full)) {
				t.Errorf("%d, %d bytes, %v; want %d", w.Code, len(body), ok, test.status)
			}
		})
	}
}

// A refused body does not end an HTTP/2 connection that carries requests of others.
func TestRefusedBodyKeepsHTTP2(t *testing.T) {
	const limit = 100
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = ReadBody(w, r, limit)
	}))
	connections := make(map[string]bool)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		connections[c.RemoteAddr().String()] = true // only the accept loop writes it
		return ctx
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	for range 20 {
		r, err := server.Client().Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", limit+1)))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusRequestEntityTooLarge || r.ProtoMajor != 2 {
			t.Fatalf("%s %s", r.Proto, r.Status)
		}
	}
	server.Close()
	if len(connections) != 1 {
		t.Errorf("20 requests took %d connections", len(connections))
	}
}
