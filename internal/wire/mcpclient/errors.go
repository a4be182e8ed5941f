package mcpclient

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

	"github.com/exthost/exthost/internal/text/display"
)

var (
	// ErrSessionGone ends a transport whose server no longer knows the session. A new session is needed.
	ErrSessionGone = errors.New("the server has ended the session")
	// ErrStreamEnded ends an [Events] transport: the session ends with the event stream.
	ErrStreamEnded = errors.New("the server ended the event stream")
)

// UnreachableError means that no connection to the server could be made. It ends a transport.
type UnreachableError struct {
	URL string // without user, query and fragment, which may hold secrets
	Err error
}

// Error returns the URL, the cause, and a hint.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v; check the url, and that the server runs", e.URL, e.Err)
}

// Unwrap returns Err.
func (e *UnreachableError) Unwrap() error { return e.Err }

// StatusError is an HTTP error status without an MCP error in its body.
type StatusError struct {
	Code       int           // the HTTP status
	Text       string        // the cause and a hint
	Next       string        // the command that Text ends with; "" if it names none
	RetryAfter time.Duration // how long the server wants no requests; 0 if unknown

	body []byte // the first maxErrorBody bytes
}

// Error returns Text.
func (e *StatusError) Error() string { return e.Text }

// Refused reports whether the server did not act on the request. That is true for every 4xx, even
// for 408: the request did not arrive as a whole (RFC 9110, 15.5.9). A 503 is ambiguous, because
// proxies also send it when the connection to a server broke after the request. With Retry-After, a
// 503 means that the request was not passed on.
func (e *StatusError) Refused() bool {
	return e.Code < 500 || e.Code == http.StatusServiceUnavailable && e.RetryAfter > 0
}

// BrokenError means that an exchange ended without a usable answer. The server may have acted on the request.
type BrokenError struct {
	What string // why there is no usable answer
	Err  error  // the cause, or nil
}

// Error returns What and Err.
func (e *BrokenError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// CredentialsError means that there were no accepted credentials for a request. The server has not acted on it.
type CredentialsError struct{ Err error }

// Error returns the text of Err.
func (e *CredentialsError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *CredentialsError) Unwrap() error { return e.Err }

// newStatusError describes the answer r. If it refuses credentials, Next stores the first of secrets anew.
func newStatusError(r *http.Response, secrets []string) *StatusError {
	authorized := r.Request.Header.Get("Authorization") != ""
	e := &StatusError{Code: r.StatusCode, RetryAfter: retryAfter(r.Header.Get("Retry-After"))}
	status := strings.TrimSpace(fmt.Sprint(r.StatusCode, " ", http.StatusText(r.StatusCode)))
	switch code := r.StatusCode; {
	case code == http.StatusUnauthorized && len(secrets) > 0:
		e.Text = "the server does not accept the secret " + strings.Join(secrets, ", ") + " (" + status + ")"
		e.Next = "exthost secret set " + secrets[0]
	case code == http.StatusUnauthorized && authorized:
		e.Text = "the server does not accept the credentials (" + status +
			"): renew the token that its configuration names. A token_file is read again; a variable is that of " +
			"exthost serve, so start that again"
	case code == http.StatusUnauthorized:
		e.Text = "the server wants credentials (" + status +
			"): state headers, or in a manifest token_env or token_file"
	case code == http.StatusForbidden:
		e.Text = "the server forbids it (" + status + "): check what the credentials may do"
	case code == http.StatusNotFound:
		e.Text = "the server has nothing at " + public(r.Request.URL) + " (" + status + "): check the url"
	case code == http.StatusMethodNotAllowed:
		e.Text = "the server takes no " + r.Request.Method + " at " + public(r.Request.URL) + " (" + status +
			`): check the url; an older server needs kind = "sse" in a manifest, type: sse in a destination`
	case code == http.StatusTooManyRequests:
		e.Text = "the server wants fewer requests (" + status + ")"
	case code >= 300 && code < 400:
		e.Text = "the server redirects (" + status + ") to " + redirectTarget(r) +
			", which is not followed: if you trust that place, make it the url"
	case code >= 500:
		e.Text = "the server failed (" + status + ")"
	default:
		e.Text = "the server refused the request (" + status + ")"
	}
	e.body, _ = io.ReadAll(io.LimitReader(r.Body, maxErrorBody)) // a partial body is better than none
	if said := snippet(r, e.body); said != "" {
		e.Text += "; it said: " + said
	}
	if e.Next != "" {
		e.Text += "; " + e.Next
	}
	return e
}

// redirectTarget returns where a redirect leads, for error texts.
func redirectTarget(r *http.Response) string {
	if to, err := r.Location(); err == nil {
		return public(to)
	}
	return "nowhere"
}

// public returns a URL without user, query and fragment, which may hold secrets.
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

// maxErrorBody is the max number of bytes read from an error's body.
const maxErrorBody = 64 << 10

// snippet returns the beginning of a body of plain text or JSON, on one line and cut between words.
func snippet(r *http.Response, text []byte) string {
	kind := r.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "text/plain") && !strings.Contains(kind, "json") {
		return ""
	}
	const most = 256
	words := display.CutWords(string(bytes.ToValidUTF8(text, nil)), most)
	return strings.Join(strings.FieldsFunc(words,
		func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }), " ")
}
