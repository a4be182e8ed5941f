package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/manifest"
)

// Tracing sets where spans of calls are sent. The standard variables OTEL_* apply to keys that are not stated, and
// OTEL_SDK_DISABLED=true overrides all keys.
type Tracing struct {
	// an OTLP/HTTP collector, such as http://127.0.0.1:4318, to which /v1/traces is appended; a URL with a path is
	// used unchanged; the whole section is not allowed in a project's file; default
	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, without which nothing is sent
	Endpoint string `json:"endpoint,omitempty"`
	// headers for the collector, such as Authorization: "Bearer secret://NAME"; default OTEL_EXPORTER_OTLP_HEADERS
	Headers map[string]string `json:"headers,omitempty" secret:"true"`
	// the share of traces to send, from 0 to 1, if the caller has not decided; default OTEL_TRACES_SAMPLER, else
	// all
	Sampling Ratio `json:"sampling,omitempty"`
	// this host's name in traces; default OTEL_SERVICE_NAME, else exthost
	Service string `json:"service,omitempty"`
}

// Ratio is a number from 0 to 1 as written; "" is not stated.
type Ratio string

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Ratio) UnmarshalText(text []byte) error {
	if f, err := strconv.ParseFloat(string(text), 64); err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1", text)
	}
	*r = Ratio(text)
	return nil
}

// Float returns the number; ok is false if it is not stated.
func (r Ratio) Float() (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(r), 64)
	return f, err == nil
}

// Validate returns all errors in s, which may be nil.
func (s *Tracing) Validate() (problems []manifest.Problem) {
	if s.Endpoint != "" {
		if err := CheckTracingEndpoint(s.Endpoint); err != nil {
			problems = append(problems, manifest.Problem{
				Field:   "endpoint",
				Message: err.Error(),
				Hint:    "such as http://127.0.0.1:4318",
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if strings.ContainsFunc(name, notToken) || name == "" {
			problems = append(problems, manifest.Problem{
				Field:   "headers",
				Message: fmt.Sprintf("%q is not a header's name", name),
				Hint:    "such as Authorization",
			})
		}
	}
	return problems
}

func notToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// CheckTracingEndpoint returns why an address is not accepted for spans. An address with credentials is refused, since
// every error would log the address.
func CheckTracingEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("it is not an http or https address")
	case u.User != nil:
		return errors.New("it has a user name or password: state them in headers")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it has a query or a fragment, which are not sent")
	}
	return nil
}

// URL returns the address that spans are sent to.
func (s *Tracing) URL() string {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Path != "" && u.Path != "/" {
		return s.Endpoint
	}
	return strings.TrimSuffix(s.Endpoint, "/") + "/v1/traces"
}
