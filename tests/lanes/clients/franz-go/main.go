// Produces and consumes over TLS with franz-go; arguments: address, certificate to trust, topic, records, key log.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	address, certificate, topic := os.Args[1], os.Args[2], os.Args[3]
	count, keylog := must(strconv.Atoi(os.Args[4])), os.Args[5]

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must(os.ReadFile(certificate)))
	keys := must(os.OpenFile(keylog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	config := &tls.Config{RootCAs: pool, KeyLogWriter: keys}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	common := []kgo.Opt{kgo.SeedBrokers(address), kgo.ClientID("franz-go"), kgo.DialTLSConfig(config),
		kgo.AllowAutoTopicCreation()}

	producer := must(kgo.NewClient(common...))
	for number := range count {
		record := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "record %d", number)}
		must(producer.ProduceSync(ctx, record).First())
	}
	producer.Close()

	group := append(common, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consumer := must(kgo.NewClient(group...))
	seen := 0
	for seen < count && ctx.Err() == nil {
		seen += consumer.PollFetches(ctx).NumRecords()
	}
	consumer.Close()
	fmt.Println("consumed", seen)
}
