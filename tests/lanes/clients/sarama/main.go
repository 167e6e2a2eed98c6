// Produces and consumes over TLS with sarama; arguments: address, certificate to trust, topic, records, key log.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
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

	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: pool, KeyLogWriter: keys}

	producer := must(sarama.NewSyncProducer([]string{address}, config))
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprintf("record %d", number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			log.Fatal(err)
		}
	}
	producer.Close()

	consumer := must(sarama.NewConsumer([]string{address}, config))
	partition := must(consumer.ConsumePartition(topic, 0, sarama.OffsetOldest))
	seen := 0
	for timeout := time.After(30 * time.Second); seen < count; seen++ {
		select {
		case <-partition.Messages():
		case <-timeout:
			log.Fatal("timed out")
		}
	}
	partition.Close()
	consumer.Close()
	fmt.Println("consumed", seen)
}
