#!/bin/sh
# Answers each request after a while with its process id, which isolate = "pid" keeps low.
while read -r request; do
	id=${request#*\"id\":}
	sleep 0.2
	echo "{\"id\":${id%%[!0-9]*},\"result\":\"pid $$\"}"
done
