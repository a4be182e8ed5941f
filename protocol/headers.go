package protocol

import "context"

type headersKey struct{}

// WithHeaders adds the headers of an HTTP request, with names in lower case, to the context of its calls. Only
// policies of category authentication see them. Nil removes them.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	if headers == nil && HeadersOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, headersKey{}, headers)
}

// HeadersOf returns the headers of [WithHeaders], nil for calls that did not arrive over HTTP. Do not modify the
// map.
func HeadersOf(ctx context.Context) map[string]string {
	headers, _ := ctx.Value(headersKey{}).(map[string]string)
	return headers
}
