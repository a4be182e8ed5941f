package redact

import (
	"bytes"
	"unicode/utf8"
)

// findEmail returns the e-mail address around the @ at text[at]. The address of a repository, git@host, does not
// count.
func findEmail(text []byte, at int) (span, bool) {
	const mostLocal, mostHost = 64, 253
	start, end := at, at+1
	for at-start < mostLocal {
		r, size := utf8.DecodeLastRune(text[:start])
		if !inHost(r) && r != '_' && r != '+' && r != '%' {
			break
		}
		start -= size
	}
	for end-at <= mostHost {
		r, size := utf8.DecodeRune(text[end:])
		if !inHost(r) {
			break
		}
		end += size
	}
	host := bytes.TrimRight(text[at+1:end], ".-")
	dot := bytes.LastIndexByte(host, '.')
	if start == at || dot < 1 || string(text[start:at]) == "git" {
		return span{}, false
	}
	top := host[dot+1:]
	if len(top) < 2 || bytes.ContainsAny(top, "0123456789") && !bytes.HasPrefix(top, []byte("xn--")) {
		return span{}, false
	}
	return span{start, at + 1 + len(host), "email"}, true
}

// inHost reports whether r may be in a host name. Only Latin letters count beyond ASCII, because other scripts
// often have no blanks around an address.
func inHost(r rune) bool {
	return r == '.' || r == '-' || r < utf8.RuneSelf && isWord(byte(r)) && r != '_' || r >= 0xc0 && r < 0x250
}

// brands are the prefixes and lengths of card numbers.
var brands = []struct {
	low, high int // range of the first digits, inclusive
	lengths   []int
}{
	{4, 4, []int{13, 16, 19}},
	{51, 55, []int{16}}, {2221, 2720, []int{16}},
	{34, 34, []int{15}}, {37, 37, []int{15}},
	{6011, 6011, []int{16, 19}}, {644, 649, []int{16, 19}}, {65, 65, []int{16, 19}},
	{3528, 3589, []int{16, 19}},
	{300, 305, []int{14}}, {36, 36, []int{14}}, {38, 39, []int{14}},
	{62, 62, []int{16, 17, 18, 19}},
}

const minCard = 13 // digits

// appendCards appends every card number in text. It tests every thirteenth byte, since no card number is shorter.
func appendCards(list []span, text []byte) []span {
	for i := minCard - 1; i < len(text); i += minCard {
		if !inCard(text, i) {
			continue
		}
		start, end := i, i+1
		for start > 0 && inCard(text, start-1) {
			start--
		}
		for end < len(text) && inCard(text, end) {
			end++
		}
		list = cardsOf(list, text, start, end)
		i = end
	}
	return list
}

// inCard reports whether text[i] is a digit, or a blank or dash between two digits.
func inCard(text []byte, i int) bool {
	if isDigit(text[i]) {
		return true
	}
	return (text[i] == ' ' || text[i] == '-') && i > 0 && i+1 < len(text) && isDigit(text[i-1]) && isDigit(text[i+1])
}

func isDigit(c byte) bool { return c-'0' < 10 }

func isLetter(c byte) bool { return c|0x20-'a' < 26 }

// cardsOf appends the card numbers in a run of digits with single blanks or dashes. A number begins and ends with
// a group.
func cardsOf(list []span, text []byte, start, end int) []span {
	for i := start; i < end; i++ {
		if !isDigit(text[i]) || i > 0 && isDigit(text[i-1]) {
			continue
		}
		if to := cardAt(text, i, end); to > 0 {
			list = append(list, span{i, to, "card"})
			i = to
		}
	}
	return list
}

// partOfToken reports whether the digits at text[i] follow a letter or a decimal point.
func partOfToken(text []byte, i int) bool {
	return i > 0 && isLetter(text[i-1]) && !escaped(text, i-1) || i > 1 && text[i-1] == '.' && isDigit(text[i-2])
}

// cardAt returns the end of the card number between text[start] and end, or 0. Digits without groups must not
// touch letters.
func cardAt(text []byte, start, end int) int {
	var digits [19]byte
	n, to, other := 0, 0, partOfToken(text, start)
	for i := start; i < end && n < len(digits); i++ {
		if !isDigit(text[i]) {
			continue
		}
		digits[n] = text[i] - '0'
		n++
		if n < minCard || i+1 < len(text) && isDigit(text[i+1]) {
			continue
		}
		alone := !other && (i+1 == len(text) || !isLetter(text[i+1]))
		if grouped := i+1-start > n; (grouped || alone) && isCard(digits[:n]) {
			to = i + 1
		}
	}
	return to
}

func isCard(digits []byte) bool {
	if digits[0] == 0 {
		return false
	}
	sum, branded := 0, false
	for i, d := range digits {
		d := int(d)
		if (len(digits)-i)%2 == 0 {
			d *= 2
			d -= d / 10 * 9
		}
		sum += d
	}
	for _, b := range brands {
		first := 0
		for i := 0; first < b.low && i < 4; i++ {
			first = 10*first + int(digits[i])
		}
		for _, n := range b.lengths {
			branded = branded || first >= b.low && first <= b.high && n == len(digits)
		}
	}
	return branded && sum%10 == 0
}
