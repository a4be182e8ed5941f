package config

import (
	"strings"
	"testing"
)

func TestPathIsAppended(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318":         "http://127.0.0.1:4318/v1/traces",
		"https://collector.example/":    "https://collector.example/v1/traces",
		"https://example.com/otlp/here": "https://example.com/otlp/here",
	} {
		if got := (&Tracing{Endpoint: endpoint}).URL(); got != want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]Tracing{
		"": {
			Endpoint: "http://127.0.0.1:4318",
			Headers:  map[string]string{"X-Key": "secret://key"},
		},
		"not an http":              {Endpoint: "localhost:4318"},
		"state them in headers":    {Endpoint: "http://me:secret@collector.example"},
		"a query":                  {Endpoint: "http://collector.example?token=secret"},
		"is not a header's name":   {Headers: map[string]string{"X Key": "x"}},
		`"" is not a header's nam`: {Headers: map[string]string{"": "x"}},
	} {
		problems := s.Validate()
		if want == "" && problems == nil {
			continue
		}
		if want == "" || len(problems) != 1 || !strings.Contains(problems[0].Message, want) ||
			strings.Contains(problems[0].Message, "secret") {
			t.Errorf("%+v: %v, want %q", s, problems, want)
		}
	}
}

func TestRatioIsFrom0To1(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "1": 1, "0.25": 0.25, "1e-3": 0.001} {
		var r Ratio
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, ok := r.Float(); !ok || got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "1.1", "-0.1", "NaN", "half", "10%"} {
		if new(Ratio).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a ratio", text)
		}
	}
	if _, ok := Ratio("").Float(); ok {
		t.Error("none is a number")
	}
}
