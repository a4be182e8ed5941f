package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Asking says where a person is asked for an approval, and how long a yes holds. Its zero value asks operators, about
// one call.
type Asking struct {
	Where    Where    `json:"where,omitempty"`
	Remember Remember `json:"remember,omitempty"`
}

// Stricter returns the more cautious of a and b, member by member.
func (a Asking) Stricter(b Asking) Asking {
	return Asking{Where: stricter(wheres(), a.Where, b.Where), Remember: stricter(remembers, a.Remember, b.Remember)}
}

// stricter returns the value that comes first in list. A value that is not in list is like the first.
func stricter[T ~string](list []T, a, b T) T {
	return list[max(0, min(slices.Index(list, a), slices.Index(list, b)))]
}

// Where is a place where a person is asked.
type Where string

// The places. The zero value is AtOperator.
const (
	AtOperator Where = "operator" // the queue that exthost calls approve and the dashboard show
	// the client that made the call, if it may approve, and the queue beside it: the first answer counts
	InClient Where = "client"
	// the same, but only a yes or a no of the client counts: if the question is dismissed, the operators are left
	InClientThenOperator Where = "client_then_operator"
)

// wheres returns the places, the default first.
func wheres() []Where { return []Where{AtOperator, InClientThenOperator, InClient} }

// Client reports whether the client that made the call is asked too.
func (w Where) Client() bool { return w == InClient || w == InClientThenOperator }

// UnmarshalJSON implements [json.Unmarshaler]. It refuses words that are no place; "" is AtOperator.
func (w *Where) UnmarshalJSON(b []byte) error { return oneOf(w, b, wheres()) }

// Remember says how long a yes holds.
type Remember string

// How long a yes holds. The zero value is RememberCall.
const (
	RememberCall    Remember = "call"    // for the one call
	RememberSession Remember = "session" // for calls with the same arguments, until the caller's session ends
)

var remembers = []Remember{RememberCall, RememberSession}

// UnmarshalJSON implements [json.Unmarshaler]. It refuses other words; "" is RememberCall.
func (r *Remember) UnmarshalJSON(b []byte) error { return oneOf(r, b, remembers) }

// oneOf decodes a word of list into to; null leaves it as it is, and "" is the first word.
func oneOf[T ~string](to *T, b []byte, list []T) error {
	if string(b) == "null" {
		return nil
	}
	var word string
	if err := json.Unmarshal(b, &word); err == nil && word == "" {
		*to = list[0]
		return nil
	}
	if !slices.Contains(list, T(word)) {
		words := make([]string, len(list))
		for i := range list {
			words[i] = string(list[i])
		}
		return fmt.Errorf("%s is none of %s", b, strings.Join(words, ", "))
	}
	*to = T(word)
	return nil
}
