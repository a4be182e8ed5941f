package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
)

// config is the config of policy.yaml. Each category uses its own fields.
type config struct {
	Callers   []string `json:"callers"`    // authentication: the allowed callers; empty allows every caller with a name
	Deny      []string `json:"deny"`       // authorization: globs of tools
	PerMinute int      `json:"per_minute"` // rate_limiting: calls per caller
	MaxBytes  int      `json:"max_bytes"`  // validation: size of a request
	Redact    []string `json:"redact"`     // content: words to mask
	File      string   `json:"file"`       // audit: a file of JSON lines; empty is stderr, which the host logs
}

func defaults() config { return config{PerMinute: 60, MaxBytes: 64 << 10} }

// categories maps each category to its constructor.
var categories = map[string]func(config) (decideFunc, error){
	"observability":  observability,
	"authentication": authentication,
	"authorization":  authorization,
	"rate_limiting":  rateLimiting,
	"validation":     validation,
	"content":        content,
	"audit":          audit,
}

// observability logs. Its answer has no effect unless the policy is required.
func observability(config) (decideFunc, error) {
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		log.Printf("I! %s of %s %s by %q", r.Flow, r.Method, r.ToolName, r.Caller)
		return allow(), nil
	}, nil
}

func authentication(c config) (decideFunc, error) {
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		if r.Caller == "" || len(c.Callers) > 0 && !slices.Contains(c.Callers, r.Caller) {
			return reject("", "%q is nobody we know; ask the operator for access", r.Caller), nil
		}
		return allow(), nil
	}, nil
}

func authorization(c config) (decideFunc, error) {
	for _, glob := range c.Deny {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, errors.New(glob + " is no glob")
		}
	}
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		for _, glob := range c.Deny {
			if ok, _ := path.Match(glob, r.ToolName); ok {
				return reject("", "%s may not be called here; use another tool", r.ToolName), nil
			}
		}
		return allow(), nil
	}, nil
}

func rateLimiting(c config) (decideFunc, error) {
	if c.PerMinute < 1 {
		return nil, errors.New("per_minute is at least 1")
	}
	var mu sync.Mutex
	minute, calls := time.Time{}, make(map[string]int)
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		if r.Flow != "request" {
			return allow(), nil
		}
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now().Truncate(time.Minute); now.After(minute) {
			minute = now
			clear(calls)
		}
		if calls[r.Caller]++; calls[r.Caller] > c.PerMinute {
			return reject("", "more than %d calls in this minute; wait for the next", c.PerMinute), nil
		}
		return allow(), nil
	}, nil
}

func validation(c config) (decideFunc, error) {
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		if n := len(r.RequestJson); n > c.MaxBytes {
			return reject("", "the arguments have %d bytes and may have %d; send less", n, c.MaxBytes), nil
		}
		return allow(), nil
	}, nil
}

// content masks words. No other category may change payloads.
func content(c config) (decideFunc, error) {
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		a := allow()
		if r.Flow == "request" {
			a.RequestJson = redact(r.RequestJson, c.Redact)
		} else {
			a.ResponseJson = redact(r.ResponseJson, c.Redact)
		}
		return a, nil
	}, nil
}

// redact changes nothing but the words, so that big numbers and unknown members survive.
// Words must not contain characters that JSON escapes.
func redact(data []byte, words []string) []byte {
	for _, word := range words {
		data = bytes.ReplaceAll(data, []byte(word), []byte("***"))
	}
	return data
}

// audit records the outcome of each exchange.
func audit(c config) (decideFunc, error) {
	out := os.Stderr
	if c.File != "" {
		f, err := os.OpenFile(c.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		out = f
	}
	var mu sync.Mutex
	return func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
		if r.Flow != "response" {
			return allow(), nil
		}
		line, err := json.Marshal(map[string]string{
			"time":        time.Now().UTC().Format(time.RFC3339Nano),
			"method":      r.Method,
			"tool":        r.ToolName,
			"caller":      r.Caller,
			"decision":    r.Metadata["decision"],
			"code":        r.Metadata["code"],
			"policy":      r.Metadata["policy"],
			"decision_id": r.Metadata["decision_id"],
		})
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			return nil, err // the host treats it as a failure of this policy
		}
		return allow(), nil
	}, nil
}
