package sdk

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Text string `json:"text"`
}

// shout has an UnmarshalJSON of its own.
type shout struct {
	Text string `json:"text"`
}

func (s *shout) UnmarshalJSON([]byte) error { s.Text = "HEARD"; return nil }

// The decoder agrees with encoding/json.
func TestDecoderAgreesWithJSON(t *testing.T) {
	for _, arguments := range []string{
		`{}`, `{"text":"a"}`, `{"text":"a\n\u00e9\ud83d\ude00","n":1,"inner":{"text":"b"}}`,
		` {"n" : 2 , "text" : "a" , "also" : "b" } `,
		`{"text":null}`, `{"text":1}`, `{"TEXT":"folded","n":"x"}`, `{"text":"a","text":"b"}`,
		`{"t\u0065xt":"escaped"}`,
		`{"quoted":"\"q\"","-":"dash","Plain":"p","plain":"q"}`, `[]`, `"text"`, `null`, `{"unknown":"u","l":["text"]}`,
		`{"n":1,"text":"` + strings.Repeat("é", largeText) + `","l":["a"]}`,
		`{"text":"` + strings.Repeat(`a\"`, largeText) + `"}`,
	} {
		holds[struct {
			Text   string   `json:"text"`
			Also   string   `json:"also,omitempty"`
			N      int      `json:"n"`
			Quoted string   `json:"quoted,string"`
			Never  string   `json:"-"`
			Inner  inner    `json:"inner"`
			List   []string `json:"l"`
			Plain  string
		}](t, arguments)
		holds[struct {
			inner
			Also string `json:"also"`
		}](t, arguments)
		holds[shout](t, arguments)
		holds[map[string]any](t, arguments)
	}
}

func holds[In any](t *testing.T, arguments string) {
	t.Helper()
	var want In
	wantErr := json.Unmarshal([]byte(arguments), &want)
	got, err := newDecoder[In]().decode(json.RawMessage(arguments))
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%.200s into %T: %.200v, %v; want %.200v, %v", arguments, got, got, err, want, wantErr)
	}
}
