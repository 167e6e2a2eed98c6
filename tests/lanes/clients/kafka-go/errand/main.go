// kafka-go of segmentio, through a proxy: the errand that ../../proxy/common.py describes. Its writer has no
// transactions, but its client has every request that one consists of; only the producer ID is put into the batch here.
// Arguments: errand, address, topic, count.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const members = 2

// Where a batch of format 2 has what a transaction needs: behind its size, as RecordSet writes it.
const (
	crcAt        = 4 + 17
	attributesAt = 4 + 21
	producerAt   = 4 + 43
	epochAt      = 4 + 51
	sequenceAt   = 4 + 53
)

const transactional protocol.Attributes = 1 << 4

var (
	address, topic = os.Args[2], os.Args[3]
	count          = must(strconv.Atoi(os.Args[4]))
	ctx, _         = context.WithTimeout(context.Background(), 90*time.Second)
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func produce() {
	writer := &kafka.Writer{Addr: kafka.TCP(address), Topic: topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond, Compression: kafka.Zstd,
		Transport: &kafka.Transport{ClientID: "kafka-go"}}
	messages := []kafka.Message{}
	for number := range count {
		value := fmt.Appendf(nil, "plain %d", number)
		messages = append(messages, kafka.Message{Key: value, Value: value})
	}
	// the broker may not know the topic yet
	for writer.WriteMessages(ctx, messages...) != nil && ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
	}
	check(writer.Close())
}

// transaction sends records of a kind to partition 0, and commits or aborts them.
func transaction(client *kafka.Client, kind string, commit bool) {
	// waits until the coordinator has completed an earlier transaction, which increments the epoch
	var producer *kafka.ProducerSession
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		begun := must(client.InitProducerID(ctx, &kafka.InitProducerIDRequest{
			TransactionalID: topic, TransactionTimeoutMs: 60000, ProducerID: -1, ProducerEpoch: -1}))
		if producer = begun.Producer; begun.Error == nil {
			break
		}
	}
	added := must(client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: topic, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}}}))
	check(added.Topics[topic][0].Error)
	produced := must(client.RawProduce(ctx, &kafka.RawProduceRequest{
		Topic: topic, Partition: 0, RequiredAcks: kafka.RequireAll, TransactionalID: topic,
		RawRecords: protocol.RawRecordSet{Reader: batch(kind, producer)}}))
	check(produced.Error)
	ended := must(client.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: topic,
		ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Committed: commit}))
	check(ended.Error)
}

// batch returns records of a kind, with their size before them, as the first batch of a producer's epoch.
func batch(kind string, producer *kafka.ProducerSession) *bytes.Buffer {
	records := []kafka.Record{}
	for number := range count {
		value := fmt.Appendf(nil, "%s %d", kind, number)
		records = append(records, kafka.Record{Key: kafka.NewBytes(value), Value: kafka.NewBytes(value)})
	}
	written := &bytes.Buffer{}
	set := protocol.RecordSet{Version: 2, Attributes: transactional, Records: kafka.NewRecordReader(records...)}
	must(set.WriteTo(written))
	content := written.Bytes()
	binary.BigEndian.PutUint64(content[producerAt:], uint64(producer.ProducerID))
	binary.BigEndian.PutUint16(content[epochAt:], uint16(producer.ProducerEpoch))
	binary.BigEndian.PutUint32(content[sequenceAt:], 0)
	covered := crc32.Checksum(content[attributesAt:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(content[crcAt:], covered)
	return written
}

func main() {
	client := &kafka.Client{Addr: kafka.TCP(address), Transport: &kafka.Transport{ClientID: "kafka-go"}}
	made := must(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 3}}}))
	check(made.Errors[topic])
	produce()
	transaction(client, "committed", true)
	transaction(client, "aborted", false)
	var lock sync.Mutex
	seen := map[string]bool{}
	reading, leave := context.WithCancel(ctx)
	var done sync.WaitGroup
	dialer := &kafka.Dialer{ClientID: "kafka-go", Timeout: 10 * time.Second}
	for range members {
		done.Add(1)
		go func() {
			defer done.Done()
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, GroupID: topic, Topic: topic,
				StartOffset: kafka.FirstOffset, IsolationLevel: kafka.ReadCommitted,
				MaxWait: 300 * time.Millisecond, Dialer: dialer})
			for reading.Err() == nil {
				message, err := reader.ReadMessage(reading)
				// the reader also returns the markers that end transactions; their key differs from their value
				if err == nil && bytes.Equal(message.Key, message.Value) {
					lock.Lock()
					seen[string(message.Value)] = true
					lock.Unlock()
				}
			}
			reader.Close()
		}()
	}
	size := 0
	for ctx.Err() == nil {
		described := must(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})).Groups[0]
		size = len(described.Members)
		lock.Lock()
		// its reader ignores aborted transactions (issue 1332) and returns records of all kinds
		complete := len(seen) == 3*count
		lock.Unlock()
		if complete && size == members && described.GroupState == "Stable" {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	brokers := [][]any{}
	for _, node := range must(client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})).Brokers {
		host := node.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		brokers = append(brokers, []any{node.ID, host, node.Port})
	}
	listed := false
	for _, each := range must(client.ListGroups(ctx, &kafka.ListGroupsRequest{})).Groups {
		listed = listed || each.GroupID == topic
	}
	if !listed {
		log.Fatal("the group is not listed")
	}
	described := must(client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}}))
	check(described.Resources[0].Error)
	leave()
	done.Wait()
	must(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}}))
	values := []string{}
	for value := range seen {
		values = append(values, value)
	}
	sort.Strings(values)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"brokers": brokers, "members": size, "consumed": values}))
}
