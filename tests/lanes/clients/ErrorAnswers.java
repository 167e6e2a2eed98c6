import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Reads lines "key version code request response", with hexadecimal frames without their size, and writes two words for
 * each: the body of Kafka's own error response to the request, and what Kafka reads from the given response: how often
 * the error occurs and how many bytes are left over. "-" stands for anything that Kafka does not support.
 */
public class ErrorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            short version = Short.parseShort(words[1]);
            Errors error = Errors.forCode(Short.parseShort(words[2]));
            if (!ApiKeys.hasId(Integer.parseInt(words[0])) || !known(ApiKeys.forId(Integer.parseInt(words[0])), version)) {
                System.out.println("- -");
                continue;
            }
            ApiKeys key = ApiKeys.forId(Integer.parseInt(words[0]));
            System.out.println(made(key, version, error, bytes(words[3])) + " " + read(key, version, error, bytes(words[4])));
        }
    }

    private static boolean known(ApiKeys key, short version) {
        return key.hasValidVersion() && key.isVersionSupported(version);
    }

    private static ByteBuffer bytes(String hexadecimal) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hexadecimal));
    }

    private static String made(ApiKeys key, short version, Errors error, ByteBuffer frame) {
        RequestHeader.parse(frame);
        AbstractRequest request = AbstractRequest.parseRequest(key, version, new ByteBufferAccessor(frame)).request;
        AbstractResponse response = request.getErrorResponse(0, error.exception());
        ByteBuffer body = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
        return "x" + HexFormat.of().formatHex(body.array(), body.position(), body.limit());
    }

    private static String read(ApiKeys key, short version, Errors error, ByteBuffer frame) {
        ResponseHeader.parse(frame, key.responseHeaderVersion(version));
        Map<Errors, Integer> counts =
            AbstractResponse.parseResponse(key, new ByteBufferAccessor(frame), version).errorCounts();
        return counts.getOrDefault(error, 0) + "/" + frame.remaining();
    }
}
