// What Apache Kafka's own classes make of frames: the witness that the lane of eras lays beside kproxy's decoding.
//
// Standard input: frames one after the other, each a byte 'Q' (request) or 'R' (response), API key and version (two
// bytes each), length (four bytes), and the frame without its size field. Standard output: one JSON object a line and
// frame: {"api", "v", "dir", "header", "body", "left": bytes it did not consume, "decodedAs": the version it was read
// in, if another, "parts": the record sets of Produce requests and Fetch responses, or "error"}. The shape is that of
// tests/captures/oracle.py.
//
// Compiled with the jars of a release; record classes moved to another package with 4.3, see Moved.java.
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class Official {
    static final ObjectMapper JSON = new ObjectMapper();
    static final short API_VERSIONS = 18;
    static final short UNSUPPORTED_VERSION = 35;

    public static void main(String[] arguments) throws Exception {
        var in = new DataInputStream(new BufferedInputStream(System.in));
        var out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (int side = in.read(); side >= 0; side = in.read()) {
            short key = in.readShort(), version = in.readShort();
            byte[] frame = new byte[in.readInt()];
            in.readFully(frame);
            ObjectNode line;
            try {
                line = read(side == 'Q', key, version, frame);
            } catch (Throwable failure) {
                line = JSON.createObjectNode().put("error", failure.toString());
            }
            out.println(line.put("key", key).put("v", version).put("dir", side == 'Q' ? "req" : "resp"));
        }
        out.flush();
    }

    static ObjectNode read(boolean request, short key, short version, byte[] frame) throws Exception {
        if (request) return readAs(true, key, version, frame);
        // like clients: a broker that does not support the version of ApiVersions responds in version 0 (KIP-511)
        if (key == API_VERSIONS && version > 0 && ByteBuffer.wrap(frame).getShort(4) == UNSUPPORTED_VERSION)
            return readAs(false, key, (short) 0, frame).put("decodedAs", 0);
        ObjectNode line = null;
        Exception reason = null;
        try {
            line = readAs(false, key, version, frame);
        } catch (Exception failure) {
            reason = failure;
        }
        if (line != null && line.get("left").asInt() == 0) return line;
        // brokers before 0.10 do not check versions, and respond in the newest they support
        for (short older = (short) (version - 1); older >= 0; older--) {
            try {
                ObjectNode other = readAs(false, key, older, frame);
                if (other.get("left").asInt() == 0) return other.put("decodedAs", older);
            } catch (Exception next) {
                continue;
            }
        }
        if (line == null) throw reason;
        return line;
    }

    static ObjectNode readAs(boolean request, short key, short version, byte[] frame) throws Exception {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        var buffer = new ByteBufferAccessor(ByteBuffer.wrap(frame));
        short headerVersion = request ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
        ApiMessage header = request ? new RequestHeaderData(buffer, headerVersion)
            : new ResponseHeaderData(buffer, headerVersion);
        ApiMessage body = request ? type.newRequest() : type.newResponse();
        body.read(buffer, version);
        ObjectNode line = JSON.createObjectNode().put("api", type.name).put("left", buffer.remaining());
        line.set("header", json(header, headerVersion));
        line.set("body", json(body, version));
        if (body instanceof ProduceRequestData produce) line.set("parts", produced(produce, version));
        if (body instanceof FetchResponseData fetch) line.set("parts", fetched(fetch, version));
        return line;
    }

    static JsonNode json(ApiMessage message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        Method write = converter.getMethod("write", message.getClass(), short.class, boolean.class);
        try {
            return (JsonNode) write.invoke(null, message, version, false);
        } catch (InvocationTargetException failure) {
            throw (Exception) failure.getCause();
        }
    }

    static ArrayNode produced(ProduceRequestData data, short version) throws Exception {
        ArrayNode parts = JSON.createArrayNode();
        for (var topic : data.topicData())
            for (var partition : topic.partitionData()) {
                ObjectNode part = JSON.createObjectNode();
                if (version < 13) part.put("topic", topic.name());
                else part.put("topicId", topicId(topic));
                add(parts, part, partition.index(), partition.records());
            }
        return parts;
    }

    static ArrayNode fetched(FetchResponseData data, short version) throws Exception {
        ArrayNode parts = JSON.createArrayNode();
        for (var topic : data.responses())
            for (var partition : topic.partitions()) {
                ObjectNode part = JSON.createObjectNode();
                if (version < 13) part.put("topic", topic.topic());
                else part.put("topicId", topicId(topic));
                add(parts, part, partition.partitionIndex(), partition.records());
            }
        return parts;
    }

    /** Calls no method for topic IDs on the classes of older releases, which have none. */
    static String topicId(Object topic) throws Exception {
        return topic.getClass().getMethod("topicId").invoke(topic).toString();
    }

    static void add(ArrayNode parts, ObjectNode part, int index, BaseRecords base) throws Exception {
        if (!(base instanceof MemoryRecords records) || records.sizeInBytes() == 0) return;
        part.put("partition", index).put("size", records.sizeInBytes());
        ArrayNode batches = part.putArray("batches"), all = part.putArray("records");
        int valid = 0;
        for (var batch : records.batches()) {
            ObjectNode one = batches.addObject();
            valid += batch.sizeInBytes();
            one.put("magic", batch.magic()).put("codec", batch.compressionType().name)
                .put("baseOffset", batch.baseOffset()).put("lastOffset", batch.lastOffset())
                .put("size", batch.sizeInBytes()).put("tsType", batch.timestampType().toString())
                .put("maxTs", batch.maxTimestamp()).put("crcValid", batch.isValid());
            int count = 0;
            for (var record : batch) {
                ArrayNode said = all.addArray().add(record.offset()).add(record.timestamp())
                    .add(record.keySize()).add(record.valueSize()).add(crc(record.key())).add(crc(record.value()));
                ArrayNode headers = said.addArray();
                for (Header header : record.headers()) {
                    ByteBuffer value = header.value() == null ? null : ByteBuffer.wrap(header.value());
                    headers.addArray().add(header.key()).add(value == null ? -1 : value.remaining()).add(crc(value));
                }
                count++;
            }
            one.put("n", count);
            if (batch.magic() < 2) continue;
            one.put("producerId", batch.producerId()).put("producerEpoch", batch.producerEpoch())
                .put("baseSequence", batch.baseSequence()).put("transactional", batch.isTransactional())
                .put("control", batch.isControlBatch()).put("leaderEpoch", batch.partitionLeaderEpoch())
                .put("count", batch.countOrNull());
        }
        parts.add(part.put("valid", valid));
    }

    static Long crc(ByteBuffer data) {
        if (data == null) return null;
        CRC32 crc = new CRC32();
        crc.update(data.duplicate());
        return crc.getValue();
    }
}
