package ticdc_assets;

import java.io.IOException;
import java.io.StringWriter;
import java.util.Iterator;
import java.util.Map;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.util.JsonUtil;

/** What Python would ask of Iceberg for each file of a table, in one call for all of them. */
public class RowChanges {

    /**
     * The data files of a snapshot as JSON: of each its path, format, partition spec, rows, and its delete files. Of a
     * delete file its path, format, position and size in it, the size of the file, and the rows it deletes.
     */
    public String files(Table table, long snapshotId) throws IOException {
        StringWriter text = new StringWriter();
        JsonGenerator json = JsonUtil.factory().createGenerator(text);
        CloseableIterable planned = table.newScan().useSnapshot(snapshotId).planFiles();
        json.writeStartArray();
        try {
            for (Iterator each = planned.iterator(); each.hasNext(); ) {
                write((FileScanTask) each.next(), json);
            }
        } finally {
            planned.close();
        }
        json.writeEndArray();
        json.close();
        return text.toString();
    }

    private void write(FileScanTask task, JsonGenerator json) throws IOException {
        DataFile file = (DataFile) task.file();
        json.writeStartArray();
        json.writeString(file.location());
        json.writeString(file.format().name());
        json.writeNumber(file.specId());
        json.writeNumber(file.recordCount());
        json.writeStartArray();
        for (Iterator each = task.deletes().iterator(); each.hasNext(); ) {
            DeleteFile deletes = (DeleteFile) each.next();
            json.writeStartArray();
            json.writeString(deletes.location());
            json.writeString(deletes.format().name());
            json.writeObject(deletes.contentOffset());
            json.writeObject(deletes.contentSizeInBytes());
            json.writeNumber(deletes.fileSizeInBytes());
            json.writeNumber(deletes.recordCount());
            json.writeEndArray();
        }
        json.writeEndArray();
        json.writeEndArray();
    }

    /** Add data files and delete files, remove delete files, and set properties of the snapshot. */
    public void stage(RowDelta delta, PartitionSpec spec, String changes) throws IOException {
        JsonNode json = JsonUtil.mapper().readTree(changes);
        for (Iterator each = json.get("rows").elements(); each.hasNext(); ) {
            delta.addRows((DataFile) ContentFileParser.fromJson((JsonNode) each.next(), spec));
        }
        for (Iterator each = json.get("deletes").elements(); each.hasNext(); ) {
            delta.addDeletes((DeleteFile) ContentFileParser.fromJson((JsonNode) each.next(), spec));
        }
        for (Iterator each = json.get("replaced").elements(); each.hasNext(); ) {
            delta.removeDeletes((DeleteFile) ContentFileParser.fromJson((JsonNode) each.next(), spec));
        }
        for (Iterator each = json.get("summary").fields(); each.hasNext(); ) {
            Map.Entry property = (Map.Entry) each.next();
            delta.set((String) property.getKey(), ((JsonNode) property.getValue()).asText());
        }
    }
}
