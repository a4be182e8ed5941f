package mcpclient

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A refusal names the stored secrets that the request had, and ends with the command that replaces the first.
func TestRefusedSecretIsNamed(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer s3cr3t")
	answer := &http.Response{
		StatusCode: http.StatusUnauthorized,
		Header:     http.Header{"Content-Type": {"text/plain"}},
		Body:       io.NopCloser(strings.NewReader("no such token")),
		Request:    r,
	}
	got := newStatusError(answer, []string{"hub"})
	if !strings.Contains(got.Text, "the secret hub ") || strings.Contains(got.Text, "s3cr3t") ||
		got.Next != "exthost secret set hub" || !strings.HasSuffix(got.Text, "; "+got.Next) {
		t.Errorf("%q, next %q", got.Text, got.Next)
	}
}
