#!/bin/sh
# Reads one request per line: {"method": tool, "params": arguments, "id": number}, and
# answers with one line: {"id", "result"} or {"id", "error"}. stderr is logged.

param() { printf '%s' "$request" | jq -r --arg key "$1" --arg default "$2" '.params[$key] // $default'; }

hello() {
	echo "Hello, $(param name world)!"
}

files() {
	ls
}

while read -r request; do
	id=$(printf '%s' "$request" | jq -c .id)
	case $(printf '%s' "$request" | jq -r .method) in
	hello) result=$(hello) ;;
	files) result=$(files) ;;
	*)
		echo "{\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"method not found\"}}"
		continue
		;;
	esac
	printf '%s' "$result" | jq -Rsc --argjson id "$id" '{id: $id, result: .}'
done
