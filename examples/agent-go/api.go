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

// instructions are what every conversation begins with.
const instructions = "Use the tools that you are offered. When one fails, read why: mend the call, or do without it and say so."

// api is what the APIs of model vendors have in common.
type api struct {
	key, keyName string
	url          string // without a slash at its end
	log          io.Writer
	left         map[string]bool // tools that were left out, and said to be
}

// newAPI reads key and address of a vendor from the environment.
func newAPI(vendor, url string, log io.Writer) (*api, error) {
	a := &api{keyName: vendor + "_API_KEY", log: log, left: map[string]bool{}}
	if a.key = strings.TrimSpace(os.Getenv(a.keyName)); a.key == "" {
		return nil, fmt.Errorf("%s is not set; -model scripted needs no key", a.keyName)
	}
	a.url = strings.TrimRight(cmp.Or(os.Getenv(vendor+"_BASE_URL"), url), "/")
	return a, nil
}

// definitions are the tools as the vendor takes them. One that it would refuse is left
// out, because with it the vendor refuses the whole request. nil stands for none.
func (a *api) definitions(format tools.Format, offered []*tools.Entry) json.RawMessage {
	list, omitted := tools.Export(format, offered)
	for _, o := range omitted {
		if !a.left[o.Tool] {
			fmt.Fprintf(a.log, "%s is not offered: %s\n", o.Tool, o.Reason)
			a.left[o.Tool] = true
		}
	}
	if len(omitted) == len(offered) {
		return nil
	}
	return list
}

// client does not follow redirects, which would take the key elsewhere.
var client = &http.Client{
	Timeout:       10 * time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const (
	tries     = 4        // of one request, while the vendor is busy
	maxPause  = 60       // seconds before the next one; a vendor that wants more is not asked again
	maxAnswer = 32 << 20 // bytes
)

// post sends a request and decodes its answer. While the vendor is busy it tries again,
// when the vendor says, up to maxPause, or after 1, 2 and 4 seconds.
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
		said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		resp.Body.Close()
		busy := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusOK:
			if err := json.Unmarshal(said, answer); err != nil {
				return fmt.Errorf("%s: %w", req.URL, err)
			}
			return nil
		case !busy || try == tries:
			return a.refusal(resp, said)
		}
		pause := uint64(1) << (try - 1)
		if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 64); err == nil {
			pause = s
		}
		if pause > maxPause {
			return fmt.Errorf("%w; ask again in %d s", a.refusal(resp, said), pause)
		}
		fmt.Fprintf(a.log, "the model's API is busy (%s); once more in %d s\n", resp.Status, pause)
		select {
		case <-time.After(time.Duration(pause) * time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refusal is the error of a request that the vendor does not answer.
func (a *api) refusal(resp *http.Response, said []byte) error {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(said, &body) != nil || body.Error.Message == "" {
		body.Error.Message = string(said[:min(len(said), 512)])
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
