package redact

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsAreMasked(t *testing.T) {
	var r Redactor
	if got := r.String("canary-1"); got != "canary-1" {
		t.Errorf("knowing nothing: %q", got)
	}
	r.SetSecrets([]string{"canary", "canary-and-more", "short"})
	for s, want := range map[string]string{
		"a canary b":         "a *** b",
		"canary-and-more":    "***",
		"canarycanary":       "******",
		"short stays, so do": "short stays, so do",
	} {
		if got := r.String(s); got != want {
			t.Errorf("String(%q) = %q, want %q", s, got, want)
		}
	}
}

// A secret is masked however a JSON encoder escapes it.
func TestSecretsInJSONAreMasked(t *testing.T) {
	var r Redactor
	r.SetSecrets([]string{"a\"b\\c\nd<é😀>&"})
	for _, s := range []string{
		`{"v":"a\"b\\c\nd<é😀>&"}`, `{"v":"a\"b\\c\nd\u003cé😀\u003e\u0026"}`,
		`{"v":"a\"b\\c\nd<\u00e9\ud83d\ude00>&"}`, `{"v":"a\"b\\c\nd\u003c\u00e9\ud83d\ude00\u003e\u0026"}`,
	} {
		if got := r.String(s); got != `{"v":"***"}` {
			t.Errorf("%s became %s", s, got)
		}
	}
}

func TestLogRecordsAreMasked(t *testing.T) {
	var r Redactor
	r.SetSecrets([]string{"canary"})
	var out bytes.Buffer
	log := slog.New(r.Handler(slog.NewJSONHandler(&out, nil)))
	log.With("with", "canary").WithGroup("g").Info("says canary", "text", "canary", "error", errors.New("no canary"),
		"list", []string{"canary"}, slog.Group("in", "deep", "canary"), "n", 3)
	if got := out.String(); strings.Contains(got, "canary") || strings.Count(got, mask) != 6 ||
		!strings.Contains(got, `"n":3`) {
		t.Errorf("logged %s", got)
	}
}

// Secrets are masked by their form too, even before any is known.
func TestRedactorMasksForms(t *testing.T) {
	var log strings.Builder
	r := new(Redactor)
	slog.New(r.Handler(slog.NewTextHandler(&log, nil))).With("with", githubPAT).Info("token "+githubPAT, "error",
		errors.New(githubPAT), "words", []string{githubPAT})
	if text := log.String(); strings.Contains(text, githubPAT[4:]) ||
		strings.Count(text, "[redacted:github-pat]") != 4 {
		t.Error(text)
	}
	if got := r.String("mail " + email + ", hash " + some(hexes, 40)); strings.Contains(got, "redacted") {
		t.Errorf("no secret, and masked: %s", got)
	}
	if got := r.Known(githubPAT); got != githubPAT {
		t.Errorf("an unknown secret became %s", got)
	}
}
