package mcphttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestF3ReadBody(t *testing.T) {
	const limit = 100
	full := strings.Repeat("x", limit)
	for name, test := range map[string]struct {
		contentType string
		body        io.Reader
		status      int // 200: the body is read
	}{
		"at the limit":         {"application/json", strings.NewReader(full), 200},
		"charset":              {"Application/JSON; charset=utf-8", strings.NewReader(full), 200},
		"over, said so":        {"application/json", strings.NewReader(full + "x"), 413},
		"over, unannounced":    {"application/json", io.MultiReader(strings.NewReader(full + "x")), 413},
		"text":                 {"text/plain", strings.NewReader(full), 415},
		"no type":              {"", strings.NewReader(full), 415},
		"form":                 {"application/x-www-form-urlencoded", strings.NewReader(full), 415},
		"too slow":             {"application/json", iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded)), 408},
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
