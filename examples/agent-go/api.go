package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/tools"
)

// instructions are the system prompt.
const instructions = "Use the tools that you are offered. When one fails, read why: correct the call, or do without " +
	"it and say so."

// api is the common part of the vendors' APIs.
type api struct {
	key, keyName string
	url          string // without a trailing slash
	log          io.Writer
	reported     map[string]bool // omitted tools that have been reported
}

// newAPI reads the key and the base URL of a vendor from the environment.
func newAPI(vendor, url string, log io.Writer) (*api, error) {
	a := &api{keyName: vendor + "_API_KEY", log: log, reported: map[string]bool{}}
	if a.key = strings.TrimSpace(os.Getenv(a.keyName)); a.key == "" {
		return nil, fmt.Errorf("%s is not set; -model scripted needs no key", a.keyName)
	}
	a.url = strings.TrimRight(cmp.Or(os.Getenv(vendor+"_BASE_URL"), url), "/")
	return a, nil
}

// definitions returns the tools in the vendor's format, nil for none. It omits tools that
// the vendor would refuse, because it would then refuse the whole request.
func (a *api) definitions(format tools.Format, offered []*tools.Entry) json.RawMessage {
	list, omitted := tools.Export(format, offered)
	for _, o := range omitted {
		if !a.reported[o.Tool] {
			fmt.Fprintf(a.log, "%s is not offered: %s\n", o.Tool, o.Reason)
			a.reported[o.Tool] = true
		}
	}
	if len(omitted) == len(offered) {
		return nil
	}
	return list
}

// client does not follow redirects, so that the key stays with the vendor.
var client = &http.Client{
	Timeout:       10 * time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const (
	maxTries  = 4        // per request
	maxPause  = 60       // longest wait in seconds before a retry; a longer Retry-After is an error
	maxAnswer = 32 << 20 // bytes
)

// post sends a request and decodes its answer. When the vendor is busy it retries after
// Retry-After, up to maxPause, or after 1, 2 and 4 seconds.
func (a *api) post(ctx context.Context, path string, header http.Header, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	header.Set("Content-Type", "application/json")
	for try := 1; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(data))
		if err != nil {
			return err
		}
		req.Header = header
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		reply, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		resp.Body.Close()
		busy := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusOK:
			if err := json.Unmarshal(reply, answer); err != nil {
				return fmt.Errorf("%s: %w", req.URL, err)
			}
			return nil
		case !busy || try == maxTries:
			return a.refusal(resp, reply)
		}
		pause := uint64(1) << (try - 1)
		if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 64); err == nil {
			pause = s
		}
		if pause > maxPause {
			return fmt.Errorf("%w; ask again in %d s", a.refusal(resp, reply), pause)
		}
		fmt.Fprintf(a.log, "the model's API is busy (%s); once more in %d s\n", resp.Status, pause)
		select {
		case <-time.After(time.Duration(pause) * time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refusal returns the error of an HTTP error response.
func (a *api) refusal(resp *http.Response, reply []byte) error {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(reply, &body) != nil || body.Error.Message == "" {
		body.Error.Message = string(reply[:min(len(reply), 512)])
	}
	hint := ""
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = "; the key is that of " + a.keyName
	case http.StatusNotFound:
		hint = "; -model VENDOR:NAME names another model"
	}
	return fmt.Errorf("%s: %s: %s%s", resp.Request.URL, resp.Status, body.Error.Message, hint)
}
