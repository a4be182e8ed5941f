package protocol

import "context"

type headersKey struct{}

// WithHeaders returns a context for the calls of an HTTP request that was sent with these
// headers, by their names in lower case. Policies of category authentication see them, and
// nobody else does. Nil removes them.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	if headers == nil && HeadersOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, headersKey{}, headers)
}

// HeadersOf returns the headers that [WithHeaders] named; nil for calls that did not come
// over HTTP. The map must not be changed.
func HeadersOf(ctx context.Context) map[string]string {
	headers, _ := ctx.Value(headersKey{}).(map[string]string)
	return headers
}
