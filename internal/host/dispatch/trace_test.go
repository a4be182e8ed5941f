package dispatch

import (
	"encoding/json"
	"testing"
)

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for params, want := range map[string]string{
		``: "", `{}`: "", `{"_meta":1}`: "", `{"_meta":{"traceparent":7}}`: "", `{"_meta":{"traceparent":"-"}}`: "",
		`{"_meta":{"traceparent":"00-` + id + `-b7ad6b7169203331-01"}}`:                       id,
		`{"_meta":{"traceparent":"cc-` + id + `-b7ad6b7169203331-01-later"}}`:                 id,
		`{"_meta":{"traceparent":"00-<script>alert(1)</script>aaaaaaaa-x"}}`:                  "",
		`{"_meta":{"traceparent":"ff-` + id + `-b7ad6b7169203331-01"}}`:                       "",
		`{"_meta":{"traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}`: "",
	} {
		if got := traceOf(json.RawMessage(params)).ID(); got != want {
			t.Errorf("%s: %q, want %q", params, got, want)
		}
	}
}
