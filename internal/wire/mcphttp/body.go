package mcphttp

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// bodyTimeout is how long a client may take to send one body.
const bodyTimeout = time.Minute

// LimitBody gives the body of r one minute to arrive. That also applies if the handler does not read the body,
// because net/http reads the rest before it answers. After the last byte the connection has no read deadline.
func LimitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || isLimited(r.Body) {
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // some ResponseWriters have no deadlines
	r.Body = &limitedBody{r.Body, rc}
}

type limitedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// isLimited reports whether body is already limited by [LimitBody].
func isLimited(body io.Reader) bool {
	if metered, ok := body.(*meteredBody); ok {
		body = metered.ReadCloser
	}
	_, is := body.(*limitedBody)
	return is
}

// Read implements [io.Reader].
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// ReadBody reads the JSON body of a POST. It returns false after it has answered the request itself: 415 for another
// content type or a compressed body, 413 for a body of more than limit bytes, 408 for one that took more than a
// minute, 503 for one over the [Budget], 400 for one cut short.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110, 15.5.16
		http.Error(w, "Content-Encoding must be identity: this server takes no compressed bodies",
			http.StatusUnsupportedMediaType)
		return nil, false
	}
	if r.ContentLength > limit {
		refuseBody(w, r, &http.MaxBytesError{Limit: limit}) // unread: to read it would only keep the connection usable
		return nil, false
	}
	LimitBody(w, r)
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	if err != nil {
		refuseBody(w, r, err)
		return nil, false
	}
	return body, true
}

// firstRead is the max size of the buffer before anything has arrived, so that a Content-Length alone does not
// allocate more.
const firstRead = 64 << 10

// readAll is io.ReadAll for a body with the given Content-Length, or -1. With a Content-Length the returned slice has
// no spare capacity.
func readAll(r io.Reader, contentLength int64) ([]byte, error) {
	exact := int(contentLength) + 1 // the extra byte lets Read report EOF without growth
	b := make([]byte, 0, max(512, min(exact, firstRead)))
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			grown := 2 * cap(b)
			if exact > cap(b) {
				grown = min(grown, exact)
			}
			b = append(make([]byte, 0, grown), b...)
		}
	}
}

// refuseBody answers a request whose body was not read to its end, and closes the connection. An HTTP/2 connection
// stays open: behind a proxy it may carry requests of other clients.
func refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("the body is larger than the %d bytes that this server takes", tooLarge.Limit),
			http.StatusRequestEntityTooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		http.Error(w, "the body came too slowly", http.StatusRequestTimeout)
	case errors.Is(err, ErrBudget):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many large requests at once; try again later", http.StatusServiceUnavailable)
	case errors.Is(err, io.ErrUnexpectedEOF):
		http.Error(w, "the body was cut short", http.StatusBadRequest)
	default:
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
	}
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}
