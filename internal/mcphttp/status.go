package mcphttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrSessionGone ends a transport whose server no longer knows the session: a
	// new one has to be initialized.
	ErrSessionGone = errors.New("the server has ended the session")
	// ErrStreamEnded ends a transport of revision 2024-11-05, whose session is its
	// one stream.
	ErrStreamEnded = errors.New("the server ended the event stream")
)

// UnreachableError ends a transport: no connection to the server could be made.
type UnreachableError struct {
	URL string // without what may be secret in it
	Err error
}

// Error says what was tried and what to check.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v; check the url, and that the server runs", e.URL, e.Err)
}

// Unwrap returns Err.
func (e *UnreachableError) Unwrap() error { return e.Err }

// StatusError is an HTTP answer in place of one of MCP.
type StatusError struct {
	Code       int           // the HTTP status
	Text       string        // what it means and what to do next
	RetryAfter time.Duration // when the server wants to be asked again; 0 when it did not say

	body []byte // the beginning of what came with it
}

// Error returns Text.
func (e *StatusError) Error() string { return e.Text }

// Refused reports whether the server did not act on the request.
func (e *StatusError) Refused() bool { return e.Code < 500 || e.Code == http.StatusServiceUnavailable }

// BrokenError is an exchange that ended without an answer that can be used: the
// server may have acted on the request.
type BrokenError struct {
	What string // what became of the answer
	Err  error  // nil when What says it all
}

// Error says what became of the answer.
func (e *BrokenError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// statusError says what the answer r means.
func statusError(r *http.Response) *StatusError {
	authorized := r.Request.Header.Get("Authorization") != ""
	e := &StatusError{Code: r.StatusCode, RetryAfter: retryAfter(r.Header.Get("Retry-After"))}
	status := strings.TrimSpace(fmt.Sprint(r.StatusCode, " ", http.StatusText(r.StatusCode)))
	switch code := r.StatusCode; {
	case code == http.StatusUnauthorized && authorized:
		e.Text = "the server does not accept the credentials (" + status + "): renew the token that [transport] names"
	case code == http.StatusUnauthorized:
		e.Text = "the server wants credentials (" + status + "): state token_env, token_file or headers under [transport]"
	case code == http.StatusForbidden:
		e.Text = "the server forbids it (" + status + "): check what the credentials under [transport] may do"
	case code == http.StatusNotFound:
		e.Text = "the server has nothing at " + public(r.Request.URL) + " (" + status + "): check the url"
	case code == http.StatusMethodNotAllowed:
		e.Text = "the server takes no " + r.Request.Method + " at " + public(r.Request.URL) + " (" + status + `): check the url, and kind: an older server needs kind = "sse"`
	case code == http.StatusTooManyRequests:
		e.Text = "the server wants fewer requests (" + status + ")"
	case code >= 300 && code < 400:
		e.Text = "the server redirects (" + status + ") to " + redirect(r) + ", which is not followed: if you trust that place, make it the url"
	case code >= 500:
		e.Text = "the server failed (" + status + ")"
	default:
		e.Text = "the server refused the request (" + status + ")"
	}
	e.body, _ = io.ReadAll(io.LimitReader(r.Body, maxErrorBody)) // as much as there is
	if said := snippet(r, e.body); said != "" {
		e.Text += "; it said: " + said
	}
	return e
}

func redirect(r *http.Response) string {
	if to, err := r.Location(); err == nil {
		return public(to)
	}
	return "nowhere"
}

// public is a URL without what may be secret in it.
func public(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// maxErrorBody is how much of what comes with an error status is read.
const maxErrorBody = 64 << 10

// snippet is the beginning of what the server said in plain text or JSON, on one line.
func snippet(r *http.Response, text []byte) string {
	kind := r.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "text/plain") && !strings.Contains(kind, "json") {
		return ""
	}
	text = bytes.ToValidUTF8(text[:min(len(text), 256)], nil)
	return strings.Join(strings.FieldsFunc(string(text), func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }), " ")
}
