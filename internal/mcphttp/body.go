package mcphttp

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
)

// bodyTimeout is how long a client may take to send one body.
const bodyTimeout = time.Minute

// LimitBody gives a request's body a minute to arrive, whoever reads it: also who
// answers without it, because the server then waits for the rest. Once it is there the
// connection may be silent as long as it likes.
func LimitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || isLimited(r.Body) {
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every ResponseWriter has deadlines
	r.Body = &limitedBody{r.Body, rc}
}

type limitedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// isLimited reports whether somebody in front has seen to it.
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

// ReadBody reads the JSON body of a POST of at most limit bytes. When it returns
// false it has answered: 415 for another content type, 413 for a body over the
// limit, 408 for one that took more than a minute, 503 for one that there is no
// memory for now, 400 for one cut short.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	if r.ContentLength > limit {
		refuseBody(w, &http.MaxBytesError{Limit: limit}) // rather than read it all to keep the connection
		return nil, false
	}
	LimitBody(w, r)
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	if err != nil {
		refuseBody(w, err)
		return nil, false
	}
	return body, true
}

// firstRead is what is allocated for a body before any of it has come: a claim is
// no reason to allocate more.
const firstRead = 64 << 10

// readAll is io.ReadAll for a body of the claimed length, -1 for none, which it
// comes to hold without the usual spare room.
func readAll(r io.Reader, claimed int64) ([]byte, error) {
	exact := int(claimed) + 1 // one more, to see the end without growing
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

// refuseBody says why a body was not read to its end, and ends the connection.
func refuseBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("the body is larger than the %d bytes that this server takes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
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
